"""Everyday questions that no catalogue of tools normally answers, to measure abstention."""

EVERYDAY: tuple[str, ...] = (
    # greetings and small talk
    "hi there",
    "good morning, how are you today?",
    "What is your name?",
    "are you a real person or a machine",
    "thanks, that was really kind of you",
    "Sorry, I didn't mean to be rude earlier.",
    "How was your weekend?",
    "do you ever get bored?",
    "Tell me something about yourself.",
    "goodbye, talk to you tomorrow",
    "you are being very silly right now",
    "What would you do if you had a day off?",
    "Do you remember what we talked about last week?",
    "I'm just killing time, what about you?",
    "ok never mind",
    "hmm let me think about that for a moment",
    "Who made you?",
    "lol that's hilarious",
    # feelings and life
    "I feel a bit lonely tonight.",
    "My best friend moved away and I miss her.",
    "How do I forgive someone who lied to me?",
    "Is it normal to be nervous before a wedding?",
    "Should I apologise first after a quarrel?",
    "Why do people fall in love?",
    "how can I stop worrying about growing old",
    "What makes a good father?",
    "My cat ignores me, does she hate me?",
    "How do you know when a friendship is over?",
    "I can't decide whether to have children.",
    "What do you say to someone who lost their grandmother?",
    "is it ever right to tell a white lie",
    "What is the secret of a happy marriage?",
    "Why am I so tired on Mondays?",
    "How do I teach my toddler to share?",
    # philosophy and opinion
    "What is the meaning of life?",
    "Is there such a thing as free will?",
    "If a tree falls in a forest and nobody hears it, does it make a sound?",
    "which came first, the chicken or the egg",
    "Can money buy happiness?",
    "What is beauty?",
    "Would you rather be able to fly or be invisible?",
    "Is a hot dog a sandwich?",
    "are cats better than dogs",
    "Does pineapple belong on pizza?",
    "What would the world be like without music?",
    "Is it better to be feared or loved?",
    "Do aliens exist?",
    "What happens after we die?",
    "Why is there something rather than nothing?",
    # jokes, riddles, verse
    "Tell me a joke about penguins.",
    "knock knock",
    "What has keys but cannot open locks?",
    "why did the chicken cross the road",
    "Sing me a lullaby.",
    "Make up a limerick about an old sailor.",
    "Say something that rhymes with orange.",
    "Give me a tongue twister.",
    "What did the ocean say to the beach?",
    "Invent a superhero whose only power is patience.",
    # history and people
    "Who was the first emperor of Rome?",
    "In which year did the Berlin Wall fall?",
    "Why did the Titanic sink?",
    "Who painted the ceiling of the Sistine Chapel?",
    "what were the causes of the French Revolution",
    "How long did the Hundred Years' War last?",
    "Who wrote Pride and Prejudice?",
    "Which pharaoh built the great pyramid at Giza?",
    "Was Napoleon really short?",
    "How did the Vikings navigate?",
    "who invented the sandwich",
    "What language did Cleopatra speak?",
    # nature and science
    "Why is the sky blue?",
    "How do bees make honey?",
    "why do onions make you cry",
    "How many bones does a shark have?",
    "Why do leaves turn red in autumn?",
    "Do fish sleep?",
    "what is the tallest animal that ever lived",
    "Why does ice float on water?",
    "How far away is the nearest star after the sun?",
    "Why do cats purr?",
    "What colour is a polar bear's skin?",
    "how does a chameleon change colour",
    "Can plants feel pain?",
    "Why do we yawn when others yawn?",
    "What is the loudest animal on earth?",
    # language and culture
    "Where does the phrase 'break a leg' come from?",
    "What is the difference between affect and effect?",
    "How do you pronounce quinoa?",
    "what is the longest word in English",
    "Why do the British drive on the left?",
    "Who is the villain in Othello?",
    "What do people eat at Japanese new year?",
    "How many strings does a violin have?",
    "What is the plot of Moby-Dick?",
    "why is Friday the thirteenth unlucky",
    "Who is Sherlock Holmes's best friend?",
    "What is a haiku?",
    # house, kitchen, hands
    "How do I get red wine out of a white carpet?",
    "Why does my sourdough not rise?",
    "how long should I boil an egg",
    "What can I use instead of butter when baking?",
    "How do you fold a fitted sheet?",
    "My basil keeps dying, what am I doing wrong?",
    "how do I sharpen a kitchen knife",
    "What is the best way to peel garlic?",
    "How do I stop a door from squeaking?",
    "Can I wash wool with cotton?",
    "How do I tie a bow tie?",
    "why does my bread taste of yeast",
    # play and sport
    "How does castling work in chess?",
    "What are the rules of hopscotch?",
    "How do I do a cartwheel?",
    "why is a tennis score called love",
    "How many players are there in a water polo team?",
    "How do you skip stones on a lake?",
    "what is the offside rule",
    "How do I whistle with two fingers?",
    "Teach me to juggle three balls.",
    # longer talk
    (
        "I had the strangest dream last night: my old teacher was riding a bicycle through our kitchen "
        "and nobody seemed to mind. What do you think a dream like that could mean?"
    ),
    (
        "My neighbour plays the trumpet every evening and I rather like it, but my wife can't stand it "
        "any more. Should I say something to him or just let it be?"
    ),
    (
        "When I was a child we used to pick blackberries behind the church, and I have been wondering why"
        " they never taste the same now that I am grown up."
    ),
    (
        "Imagine that you could have dinner with three people who are no longer alive. Whom would you "
        "choose, and what would you ask them first?"
    ),
    (
        "My daughter asked me why the moon follows us when we are driving home, and I had no idea how to "
        "explain it to a four-year-old. How would you put it?"
    ),
    (
        "I have lived in this town for ten years and still feel like a stranger. Do people ever really "
        "belong to a place where they were not born?"
    ),
    (
        "In the film we saw yesterday the hero forgives his brother at the very end. I thought that was a"
        " weak ending, but everybody else cried. Am I too hard-hearted?"
    ),
    (
        "They say that the ancient Greeks had no word for blue. Is that true, and if it is, does it mean "
        "that they could not see the colour of the sea?"
    ),
    (
        "We were arguing at lunch about whether a straw has one hole or two, and now nobody is speaking "
        "to anybody. Please settle this for us once and for all."
    ),
    (
        "My grandfather always said that you can tell the character of a man by the way he treats "
        "waiters. Do you believe that, or is it just one of those things that old people say?"
    ),
)
"""Small talk, feelings, opinions, riddles, trivia and the household; the questions are independent."""
