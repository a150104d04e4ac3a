"""What the rules find in English and Chinese messages, and what they leave alone."""

from __future__ import annotations

from langmem_adapter.reasoning.rules.reasoner import RuleReasoner
from tests.cases import each
from tests.reasoning.reasoner_conformance import question, turn

REASONER = RuleReasoner()

FOUND = [
    ("Hi, I am looking for a restaurant in San Francisco.", ["Looking for a restaurant in San Francisco"]),
    (
        "Yesterday, I had a meeting with John at 3pm. We discussed the new project.",
        ["Had a meeting with John at 3pm", "Discussed the new project"],
    ),
    ("Hi, my name is John. I am a software engineer.", ["Name is John", "Is a software engineer"]),
    ("Me favourite movies are Inception and Interstellar.", ["Favourite movies are Inception and Interstellar"]),
    ("My favourite movies are Inception and Interstellar.", ["Favourite movies are Inception and Interstellar"]),
    ("I'm John.", ["Name is John"]),
    ("I’m John, a software engineer.", ["Name is John", "Is a software engineer"]),
    ("Call me Al.", ["Name is Al"]),
    ("My blood type is A-.", ["Blood type is A-"]),
    ("My grades are A* and A-, my score is -5", ["Grades are A* and A-", "Score is -5"]),
    ("*I love tea* and **my blood type is A-**", ["Loves tea", "Blood type is A-"]),
    ("- I love tea -", ["Loves tea"]),
    ("This is Anna Smith from Acme.", ["Name is Anna Smith"]),
    ("My name's Bob.", ["Name is Bob"]),
    ("my name is bob and i like beer", ["Name is bob", "Likes beer"]),
    ("They've put me on nights.", ["Works nights"]),
    ("ugh, im not vegan anymore lol", ["Is no longer vegan"]),
    ("My landlord raised my rent to 900.", ["Rent is now 900"]),
    ("Got a new dentist! Her name's Dr. Wu.", ["Dentist is Dr. Wu"]),
    ("My phone's a Pixel.", ["Phone is a Pixel"]),
    ("My wife dumped me.", ["Broke up with wife"]),
    ("I have a sister.", ["Has a sister"]),
    ("I've got two kids.", ["Has two kids"]),
    ("My wife's name is Ann and my dog is called Rex.", ["Wife's name is Ann", "Dog is called Rex"]),
    ("Anna is my sister.", ["Has a sister named Anna"]),
    ("My wife's a teacher.", ["Wife is a teacher"]),
    ("My mom died last year.", ["Mom died in 2024"]),
    ("My sister lives in Rome.", ["Sister lives in Rome"]),
    ("We just adopted a puppy named Biscuit!", ["Adopted a puppy named Biscuit"]),
    ("Her name is Jesica. She has a dog.", ["Her name is Jesica", "She has a dog"]),
    ("His favourite team is Ajax. They have two kids.", ["His favourite team is Ajax", "They have two kids"]),
    ("I love hiking but I hate running.", ["Loves hiking", "Hates running"]),
    ("I really like cheese pizza.", ["Really likes cheese pizza"]),
    ("I enjoy reading. I prefer tea over coffee.", ["Enjoys reading", "Prefers tea over coffee"]),
    ("I can't stand cilantro.", ["Can't stand cilantro"]),
    ("I don't like cheese pizza.", ["Doesn't like cheese pizza"]),
    ("i dont like spicy food", ["Doesn't like spicy food"]),
    ("im a vegetarian", ["Is a vegetarian"]),
    ("I'm allergic to peanuts, what can I eat?", ["Is allergic to peanuts"]),
    ("I like salt and pepper.", ["Likes salt and pepper"]),
    ("I'm not really into sports.", ["Is not really into sports"]),
    ("I live in the US.", ["Lives in the US"]),
    ("I live in Paris and work at Google.", ["Lives in Paris", "Works at Google"]),
    ("I moved to Berlin last year.", ["Moved to Berlin in 2024"]),
    ("I'm from Poland but live in London.", ["Is from Poland", "Lives in London"]),
    ("I work as a nurse at St. Mary's hospital.", ["Works as a nurse at St. Mary's hospital"]),
    (
        "I graduated from MIT in 2015 and now work at Google as an engineer.",
        ["Graduated from MIT in 2015", "Works at Google as an engineer"],
    ),
    ("I'm French. I'm 30.", ["Is French", "Is 30 years old"]),
    ("I was born in 1990.", ["Was born in 1990"]),
    ("My birthday is May 5. My email is a@b.com.", ["Birthday is May 5", "Email is a@b.com"]),
    ("I'm going to visit Rome in May.", ["Going to visit Rome in May"]),
    ("Next week I have a flight to Oslo.", ["Has a flight to Oslo in the week of 2025-05-05"]),
    ("I'd like to visit Iceland.", ["Would like to visit Iceland"]),
    ("I want to learn piano.", ["Wants to learn piano"]),
    ("I'll start a new job next month.", ["Will start a new job in June 2025"]),
    ("I've been to Japan twice.", ["Has been to Japan twice"]),
    ("I bought a new car.", ["Bought a new car"]),
    ("I met Tom; he is a doctor.", ["Met Tom", "He is a doctor"]),
    ("My wife and I are planning a trip to Japan.", ["Planning a trip to Japan with wife"]),
    ("I don't eat meat.", ["Doesn't eat meat"]),
    ("I never drink coffee.", ["Never drinks coffee"]),
    ("I no longer work at Acme.", ["No longer works at Acme"]),
    ("I don't work at Acme anymore.", ["No longer works at Acme"]),
    ("I no longer am a member of the club.", ["Is no longer a member of the club"]),
    ("I started going to the gym again.", ["Started going to the gym again"]),
    (
        "I quit smoking. I gave up sugar. I stopped eating meat.",
        ["Quit smoking", "Gave up sugar", "Stopped eating meat"],
    ),
    ("I'm not vegetarian any more.", ["Is no longer vegetarian"]),
    ("I've gone off football completely.", ["Has gone off football completely"]),
    ("I have a glass of wine now and then these days.", ["Has a glass of wine now and then"]),
    ("I gave up on pottery.", ["Gave up on pottery"]),
    ("I used to live in Rome.", ["Used to live in Rome"]),
    ("I'm vegan. I run every morning.", ["Is vegan", "Runs every morning"]),
    ("I can speak French. I speak German.", ["Can speak French", "Speaks German"]),
    ("I have to take my pills daily.", ["Has to take pills daily"]),
    ("Remember that I'm allergic to nuts.", ["Is allergic to nuts"]),
    ("I just wanted to let you know that I moved to Oslo.", ["Moved to Oslo"]),
    ("Can you recommend a good book? I love mystery novels.", ["Loves mystery novels"]),
    ("I live in the U.S. near St. Paul.", ["Lives in the U.S. near St. Paul"]),
    ("- I love tea.\n- I hate milk.", ["Loves tea", "Hates milk"]),
    ("I live in\nsunny Paris.", ["Lives in sunny Paris"]),
    ("I like 饺子.", ["Likes 饺子"]),
    ("你好，我正在寻找旧金山的一家餐厅。", ["正在寻找旧金山的一家餐厅"]),
    ("昨天，我下午3点和John开了会。我们讨论了新项目。", ["下午3点和John开了会", "讨论了新项目"]),
    ("你好，我叫John。我是一名软件工程师。", ["名字是John", "是一名软件工程师"]),
    ("我最喜欢的电影是《盗梦空间》和《星际穿越》。", ["最喜欢的电影是《盗梦空间》和《星际穿越》"]),
    ("你好，我的名字叫Desmond。", ["名字是Desmond"]),
    ("我有一个姐姐。她的名字叫Jesica。她有一条狗。", ["有一个姐姐", "她的名字叫Jesica", "她有一条狗"]),
    ("我叫小明，今年30岁，住在上海，喜欢爬山。", ["名字是小明", "今年30岁", "住在上海", "喜欢爬山"]),
    # What follows without a subject is said of whoever was named, not of the speaker.
    ("我妈妈住在上海，喜欢跳舞。", ["妈妈住在上海", "妈妈喜欢跳舞"]),
    ("我女朋友叫李娜，来自四川。", ["女朋友叫李娜", "女朋友来自四川"]),
    ("我们有一个三岁的女儿，叫朵朵。", ["有一个三岁的女儿，叫朵朵"]),
    ("我养了一只金毛，叫大黄。", ["养了一只金毛，叫大黄"]),
    ("我有个朋友叫阿强，在腾讯工作。", ["有个朋友叫阿强，在腾讯工作"]),
    ("我住在杭州，喜欢喝茶。", ["住在杭州", "喜欢喝茶"]),
    ("我喜欢苹果，香蕉和梨。", ["喜欢苹果，香蕉和梨"]),
    ("我喜欢喝咖啡，但是不喜欢喝茶。", ["喜欢喝咖啡", "不喜欢喝茶"]),
    ("我对花生过敏，能吃什么？", ["对花生过敏"]),
    ("我是王伟。我是程序员。我是安徽人。", ["名字是王伟", "是程序员", "是安徽人"]),
    ("我不吃素了。我已经不在Acme工作了。", ["不吃素了", "不在Acme工作了"]),
    ("我没有车了。", ["不再有车"]),
    ("我只有65公斤，身高一米七。", ["体重65公斤", "身高一米七"]),
    ("我手机丢了，换了个小米。", ["手机丢了", "手机是小米"]),
    ("手机坏了换了华为。", ["手机坏了", "手机是华为"]),
    ("我爸手机坏了，换了华为。", ["爸手机坏了", "爸换了华为"]),
    ("空调坏了，换了格力。", []),
    ("灯泡坏了，换了新的。", []),
    ("工作找到了，在阿里做运营。", ["在阿里做运营"]),
    ("我妈妈和我都喜欢爬山，上周我爸跟我说要退休。", ["和妈妈都喜欢爬山"]),
    ("女儿和我住在上海。", ["和女儿住在上海"]),
    ("我妈妈住在北京。我的猫叫咪咪。", ["妈妈住在北京", "猫叫咪咪"]),
    ("我爸爸是医生，妈妈是老师。", ["爸爸是医生", "妈妈是老师"]),
    ("叫我小李就行。大家都叫我老王。", ["名字是小李", "昵称是老王"]),
    ("我每天早上跑步。我不吃肉。我吃素。", ["每天早上跑步", "不吃肉", "吃素"]),
    ("我养了一只猫。我去过日本两次。", ["养了一只猫", "去过日本两次"]),
    ("我没有孩子。我结婚了。", ["没有孩子", "结婚了"]),
    ("我打算学法语。我会弹钢琴。", ["打算学法语", "会弹钢琴"]),
    ("我从事金融行业，但是我想成为一名医生。", ["从事金融行业", "想成为一名医生"]),
    ("我老公叫李雷，我们住在深圳。", ["老公叫李雷", "住在深圳"]),
    ("Hi，我叫John", ["名字是John"]),
]

NOTHING = [
    "Hi.",
    "Hello there!",
    "There are branches in trees.",
    "The sky is blue. Water boils at 100 degrees.",
    "Paris is the capital of France.",
    "John loves pizza. Everyone likes pizza.",
    "What's the weather like today? Tell me a joke.",
    "Can you help me with my code? I have a question.",
    "Do you know if I like pizza?",
    "Do I live in Rome?",
    "Thanks a lot! That's great.",
    "I'm tired. I'm sorry. I'm fine.",
    "I think so. I see. I understand. I got it. I did it.",
    "I don't know. I don't like it. I love that.",
    "I love you. I like your answer.",
    "I need help. I have an idea. I have no idea.",
    "I'd like to know the price. I want to ask something.",
    "I'm just kidding. I was wondering about that.",
    "If I were rich, I would buy a boat.",
    "Imagine I live on Mars.",
    'He said "I am John".',
    "Write a poem about my dog.",
    "Call me back. Please call me tomorrow.",
    "My question is how to do it. My code doesn't work.",
    "I'll try. I'll let you know. I'll be back.",
    "I'm on my way.",
    "```\nmy name is Root\nI live in a box\n```",
    "> I live in Rome",
    "It is raining. It's a nice day.",
    "I hope it works.",
    "I gave up on that diet. I finished. I no longer touch that stuff. I've quit.",
    "I'm not seeing anyone today.",
    "42",
    "🙂🙂🙂",
    "你好。",
    "树上有树枝。",
    "你能帮我写代码吗？我想问一个问题。",
    "我知道了。我明白。谢谢你。好的。",
    "我觉得不错。我很累。",
    "如果我有钱，我就买房。",
    "我喜欢你。我有一个问题。",
    "医生说我有高血压。",
    "今天天气真好。这是什么？",
    "我住在哪里？",
]


def facts_of(message: str) -> list[str]:
    return [fact.text for fact in REASONER.extract.invoke(question(turn(message))).facts]


@each(("message", "facts"), FOUND)
def test_a_message_gives_its_facts(message: str, facts: list[str]) -> None:
    assert facts_of(message) == facts


@each("message", NOTHING)
def test_a_message_without_facts_gives_none(message: str) -> None:
    assert facts_of(message) == []


def test_what_is_said_twice_in_one_message_is_one_fact() -> None:
    assert facts_of("I love tea. Did you hear? I love tea!") == ["Loves tea"]


def test_a_name_heard_before_may_be_a_subject_later() -> None:
    said = "I have a sister. Her name is Jesica. Jesica lives in Rome. Berlin lives in fear."
    assert facts_of(said)[-1] == "Jesica lives in Rome"
