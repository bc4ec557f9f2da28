"""English words that say nothing, or little, about which tool is meant."""

__all__ = ["STOP_WORDS", "VAGUE_WORDS"]

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
"""How people ask, whatever they ask for."""

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
"""Words that say a little, though less than the name of a thing: they count for less in a question."""
