"""Words to index terms: stems, stem families and concepts (groups of synonyms).

A term is a stem (`creat`), a family (`~creat`: all stems that begin with these five letters) or a concept
(`=12`: all words of a group of near synonyms). A tool is indexed under all three; a question looks up stems
at full weight, families and concepts at a fraction of it.
"""

from functools import cache, lru_cache

from toolcrib.discovery.search.text.stem import stem

FAMILY_WEIGHT = 0.2
CONCEPT_WEIGHT = 0.3
VAGUE_WEIGHT = 0.6
"""The weight in a question of a vague word such as `current` or `provide`."""

_SOFTER = {"~": FAMILY_WEIGHT, "=": CONCEPT_WEIGHT}
_FAMILY_LENGTH = 5
_GRAMMAR = """
a about above after again against all also although am an and any are as at be because been before
being below between both but by did do does doing don down during each either few for from further
had has have having he her here hers herself him himself his how however i if in into is isn it its
itself just let ll may me might more most much must my myself no nor not of off on once only or
other ought our ours ourselves out over own per re s same shall she should so some such t than that
the their theirs them themselves then there these they this those though through to too under unless
until up upon us ve very was we were what when where whether which while who whom whose why will
with within without would you your yours yourself yourselves
"""
_TALK = """
actually anybody anyone anything assist assistance can cannot cant could currently dear didnt doesnt
dont etc everything get give got happen happening hello help helpful hey hi idea interested kindly
know like looking love maybe need needed needs okay ok please possible really recommend
recommendation recommendations right seem since someone something sure tell thank thanks think thing
things try trying use used useful using via wanna want wanted wants way ways wish wonder wondering
yes
"""
"""Words of requests in general, such as "can you help me": stop words, whatever is asked for."""
STOP_WORDS = frozenset((_GRAMMAR + _TALK).split())
_VAGUE = """
able accurate additional advice appreciate appropriate available aware best better brief certain
clear come comprehensive curious current detailed details different easily effective effectively
efficient efficiently ensure entire essential exactly excited extensive feel find finding following
full fully general go going good great greatly guidance include included including individual inform
information insight insights intricate involve keep kind learn long lot main make making many matter
moment multiple new next nice number obtain offer order overall particular particularly personal
personalized plan planning provide provided provides providing quick quickly range receive relate
related relevant require required requires respond see seek seeking several share show similar
simple simply single specific specifically start still struggle struggling stuff suggest suggestion
suggestions suitable tailored take thorough thoroughly today top total two type typically understand
understanding unique urgently user users various whole work world
"""
VAGUE_WORDS = frozenset(_VAGUE.split())
"""Words with some meaning, though less than the name of a thing; they have `VAGUE_WEIGHT` in a question."""
SAME_WORDS = {
    "admin": "administrator",
    "app": "application",
    "apps": "applications",
    "auth": "authentication",
    "config": "configuration",
    "db": "database",
    "dir": "directory",
    "doc": "document",
    "docs": "documents",
    "email": "mail",
    "emails": "mails",
    "env": "environment",
    "img": "image",
    "info": "information",
    "k8s": "kubernetes",
    "msg": "message",
    "pic": "picture",
    "pics": "pictures",
    "postgres": "postgresql",
    "repo": "repository",
    "repos": "repositories",
}
"""Abbreviations and spellings that are replaced by a standard word before stemming."""
GROUPS = """
create make generate produce compose build craft draw design
add insert append attach include
delete remove erase drop purge clear discard unsubscribe
update edit modify change alter revise amend adjust rename
list enumerate browse display show view
find search lookup locate discover seek query explore hunt
fetch retrieve obtain download pull load extract gets scrape crawl
send deliver dispatch forward transmit submit share post publish notify
message chat sms text dm whatsapp telegram slack conversation talk
notify alert remind reminder notification warn alarm
mail inbox gmail newsletter outlook
summarize summary digest overview recap abstract brief condense shorten tldr gist
translate translation translator interpreter language multilingual bilingual
explain clarify interpret understand describe
compare comparison versus difference contrast
convert transform exchange conversion converter
calculate compute evaluate calculator computation math mathematics arithmetic algebra
solve solver equation
analyze analysis analytics examine inspect assess evaluate statistics statistic insight
predict forecast prediction estimate projection
monitor track watch trace tracking follow observe
schedule calendar appointment meeting agenda event booking
book reserve reservation booking
plan planner itinerary organize organizer arrange
buy purchase shop shopping order acquire ecommerce store retail
product item merchandise goods
price cost fee rate expensive cheap pricing quote
discount coupon promo promotion deal sale bargain voucher offer
pay payment invoice bill checkout charge billing transaction refund
bank banking account loan mortgage credit debit
invest investment investor stock share equity portfolio finance financial market trading earnings ticker
crypto cryptocurrency bitcoin ethereum blockchain token nft wallet defi coin
currency money dollar euro yen cash forex
tax income salary wage payroll
insurance policy premium claim coverage
job career employment vacancy position hiring hire recruit recruiter recruitment occupation
resume cv curriculum coverletter
interview candidate applicant
company business corporation firm enterprise organization startup
customer client buyer consumer
market marketing advertise advertisement advertising ad campaign promote
seo keyword backlink ranking serp
website site webpage web homepage page url link domain
browser chrome firefox navigate
internet online network connectivity
photo picture image photograph snapshot visual illustration drawing artwork wallpaper
video clip footage youtube film movie trailer vlog
movie film cinema series show television tv streaming netflix
music song track playlist album artist spotify tune melody band lyric
audio sound voice speech podcast recording
transcribe transcription transcript dictation subtitle caption
book novel literature read reading library ebook author
paper article journal research study academic scholarly publication arxiv citation bibliography science
news headline journalism press breaking
write writing essay draft writer author copywriting paragraph
grammar spelling proofread proofreading rewrite paraphrase polish
story tale narrative fiction plot
poem poetry poet verse rhyme
joke humor funny meme comedy laugh
game gaming play player videogame puzzle trivia quiz riddle
chess sudoku crossword
sport football soccer basketball baseball tennis athlete league team match tournament score
travel trip journey vacation holiday tour tourism tourist destination visit sightseeing
hotel accommodation lodging hostel airbnb motel resort stay
flight airline airplane plane airport fly
train railway rail subway metro bus transit commute transport transportation
car vehicle automobile auto truck drive driving driver dealer
taxi ride cab uber lyft
route direction navigation map gps distance
location place address coordinate geolocation geography position
nearby near local around neighborhood
restaurant dining dine eatery cafe diner
recipe cook cooking dish meal ingredient cuisine kitchen bake baking chef
food eat meal snack lunch dinner breakfast
drink beverage cocktail wine beer sake whisky coffee tea
diet nutrition calorie nutrient nutritional weightloss
health medical medicine doctor disease symptom patient clinical illness healthcare diagnosis hospital
drug medication pharmacy prescription pill
fitness exercise workout gym training yoga
sleep rest insomnia
therapy mental anxiety depression stress wellbeing meditation mindfulness
baby child kid children parent parenting toddler
pet dog cat puppy veterinary animal
plant garden gardening flower crop agriculture farm farming
weather temperature rain climate forecast humidity wind snow storm meteorology
air pollution quality smog aqi
earthquake disaster flood hurricane emergency
space astronomy nasa planet star satellite galaxy mars telescope astronaut iss
horoscope astrology zodiac astrological tarot fortune
house home property apartment estate realestate rent rental lease housing realtor tenant landlord
furniture decor interior renovation decoration
fashion clothes clothing outfit apparel dress wear shoe style
beauty makeup cosmetic skincare hair
gift present birthday occasion
wedding party celebration
education learn learning course lesson teach teacher tutor student school university college class study
exam test quiz assessment grade
vocabulary word dictionary definition synonym thesaurus meaning term
flashcard memorize memory remember recall
history historical past ancient
law legal lawyer attorney court lawsuit litigation legislation statute
government political politics election vote senator parliament congress
people person human individual
user member profile account
password credential login authentication authenticate signin
security vulnerability threat malware exploit attack secure
permission role access authorization privilege
file document pdf attachment
folder directory path
spreadsheet excel sheet csv table workbook
slide presentation powerpoint deck slideshow
note notes memo notebook jot
task todo ticket issue bug backlog
project milestone sprint kanban
code coding program programming programmer developer software script snippet
repository git github gitlab
commit branch merge pull
function method procedure routine
debug error exception crash failure bug troubleshoot fault
test testing unittest qa
deploy deployment release rollout ship
server host instance machine vm
container docker kubernetes pod cluster
database sql query table postgresql mysql sqlite
record row entry
log logs logging audit
metric metrics kpi dashboard monitoring
chart graph plot diagram visualization visualize visualise
data dataset information
statistics mean median average deviation probability
geometry triangle circle shape area perimeter polygon
physics force velocity acceleration energy
chemistry chemical molecule compound reaction
biology gene dna protein genome cell species
model classifier neural training
classify classification categorize label detect recognition recognize identify
sentiment emotion mood feeling
similarity similar alike resemble
qr barcode qrcode
domain hostname dns
ip address network
phone telephone call mobile smartphone cellphone dial
contact phonebook addressbook
social twitter facebook instagram tweet linkedin tiktok hashtag
trend trending popular viral
review rating feedback testimonial opinion
recommended suggest suggestion advice advise tip propose
question answer faq ask
ideas brainstorm inspiration brainstorming
goal target objective
time clock timezone hour minute
date day calendar
today current now latest recent newest
start begin launch initiate open run execute trigger
stop end halt terminate cancel abort quit close
pause suspend
copy duplicate clone replicate
move transfer relocate migrate
save store keep persist archive backup
restore recover undo rollback
import upload ingest
export download
sort order rank ranking arrange
filter narrow refine
count number total tally quantity amount
sum add total aggregate
size length dimension width height
check verify validate confirm validation verification
approve accept authorize
reject deny decline refuse
assign allocate delegate
connect link join integrate integration attach
color colour palette hue
font typography typeface
logo icon emblem
3d modeling cad render rendering
device sensor iot smart appliance
light lamp bulb lighting
password passphrase
encrypt decrypt cipher encryption hash
compress zip archive
random shuffle
parcel package shipping shipment delivery courier freight logistics
inventory stock warehouse supply
supplier vendor provider
contract agreement nda
crime police criminal
military army defense
religion bible prayer church quran
energy electricity power solar
fuel gasoline petrol gas diesel
parking carpark
charity donate donation nonprofit
immigration visa passport
event concert festival ticket show theater
museum art gallery exhibition painting
genealogy ancestor family
"""
"""Groups of near synonyms, one to a line; a word may be in several."""


@lru_cache(maxsize=1 << 16)
def index_terms(word: str) -> tuple[str, ...]:
    """Return the terms that a word is indexed under, its stem first; none for a stop word.

    >>> index_terms("creating")[:2], index_terms("the")
    (('creat', '~creat'), ())
    """
    if word in STOP_WORDS:
        return ()
    base = stem(SAME_WORDS.get(word, word))
    if len(base) < _FAMILY_LENGTH or not base.isalpha():
        return (base, *concepts_of(base))
    return (base, f"~{base[:_FAMILY_LENGTH]}", *concepts_of(base))


@lru_cache(maxsize=1 << 14)
def question_terms(word: str) -> tuple[tuple[str, float], ...]:
    """Return the terms of a word in a question with their weights; none for a stop word.

    >>> question_terms("available")
    (('avail', 0.6), ('~avail', 0.12))
    """
    weight = VAGUE_WEIGHT if word in VAGUE_WORDS else 1.0
    return tuple((term, round(weight * _SOFTER.get(term[0], 1.0), 3)) for term in index_terms(word))


@cache
def _concepts() -> dict[str, tuple[str, ...]]:
    """Return the concept terms of each stem; a concept is named by the line of its group."""
    found: dict[str, list[str]] = {}
    for number, line in enumerate(GROUPS.split("\n")):
        for word in dict.fromkeys(map(stem, line.split())):
            found.setdefault(word, []).append(f"={number}")
    return {word: tuple(groups) for word, groups in found.items()}


def concepts_of(term: str) -> tuple[str, ...]:
    """Return the concept terms of a stem.

    >>> concepts_of(stem("photos")) == concepts_of(stem("picture"))
    True
    """
    return _concepts().get(term, ())
