"""The model of the lessons, and beginnings of texts that it can continue.

`LessonEngine.tokens` cuts a text to an exact number of tokens. No two of these texts begin with the
same word, so requests share blocks only where a lesson wants them to.
"""

LESSON_MODEL = "house"
"""The model of lessons and of exercises' demos, unless the user names another one."""

STORIES = {
    "ada": (
        "Once there was a dragon named Olga who loved numbers. On Saturday, she counted eleven"
        " birds at the garden."
    ),
    "bob": (
        "Nobody knew that Ivo was a pirate. At night he went to the lighthouse alone. Zoe"
        " wanted to know why."
    ),
    "cleo": (
        "Near the harbour lived a wizard named Vera. She had a golden key, and she took it"
        " everywhere. One winter, she lost the key at the harbour. Vera looked under every"
        " stone, but she could not find it. Then she met Finn, who was a baker."
    ),
    "dan": "Long ago, a robot named Sam lived far from the castle.",
    "eve": "Every day, a baker named Hana worked at the mill.",
    "finn": "In a small town there lived a doctor named Will.",
    "gil": (
        "Two people wanted the same lamp: Kai and Rosa. Kai was slow but clever, and Rosa was"
        " fast. They waited for the night and then began to run. Rosa was soon out of sight."
        " But then Rosa was hungry and stopped to eat bread."
    ),
    "hana": (
        "June was a singer who lived near the lake. She had a silver flute that she loved very"
        " much. But one evening, the silver flute was gone. June sat down and was very sad."
        " Soon Ben came by with some cake."
    ),
}
"""A user of the lessons -> the beginning of the user's prompt."""


DIARY = (
    "Paul was a young sailor who wanted to see the world. One morning, he took a small map and"
    ' went to find the island. After two days he came to a river and saw a fox. "I am hungry,"'
    ' said the fox. Paul shared his bread with the fox. "You are kind," said the fox, "and I'
    ' will go with you." They walked for nine days. In the evening they saw the lights of the'
    ' village. In front of the village stood Tara, who was a captain. "Show me what you have,"'
    " said Tara. Paul showed the small map, and Tara smiled. Inside there was music, and everybody"
    " danced until the morning."
)
"""A long prompt: more than 100 tokens."""

RULES = "Write short sentences. Be friendly. Never use long words."
"""What the prompts of one service begin with."""
