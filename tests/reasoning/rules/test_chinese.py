"""What rules make of plain Chinese talk: what changes in a life is changed in memory, and what only looks alike is not."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langmem_adapter.memory import Memory
from langmem_adapter.statements.chinese import chinese_statement
from langmem_adapter.statements.chinese_dates import chinese_number, dated_chinese

if TYPE_CHECKING:
    from collections.abc import Iterator

# what was said, what is said now, what must stand
CHANGED = [
    ("我在深圳租房住。", "我们在东莞买了房，搬过去了。", "东莞"),
    ("我是程序员。", "我转行做产品经理了。", "产品经理"),
    ("我在一家律所实习。", "我实习结束了，现在在法院工作。", "法院"),
    ("我在上高二。", "我今年上高三了。", "高三"),
    ("我没有孩子。", "我上个月当爸爸了，生了个女儿。", "女儿"),
    ("我的手机号是13800001111。", "我换号码了，新号码是13922223333。", "13922223333"),
    ("我讨厌跑步。", "我现在喜欢跑步了。", "跑步"),
    ("我晚上喝红酒。", "我戒酒了。", "戒"),
    ("我月薪八千。", "我涨工资了，现在月薪一万。", "一万"),
    ("我计划暑假去新疆。", "我把新疆的计划取消了。", "取消"),
    ("我坐地铁上班。", "我现在骑车上班。", "骑车"),
    ("我叫王芳。", "我改名叫王雨桐了。", "王雨桐"),
    ("我订阅了网易云会员。", "我把网易云会员退了。", "退"),
    ("我家的狗叫豆豆。", "豆豆去世了。", "豆豆"),
    ("我目前定居在新加坡。", "我回国了，现在住在广州。", "广州"),
    ("我的职业是律师。", "我不做律师了，改行当老师。", "老师"),
    ("我在复旦大学读书。", "我转学到同济大学了。", "同济"),
    ("我老公叫建国。", "我和建国离婚了。", "离婚"),
    ("我不吃牛肉。", "我现在吃牛肉了。", "牛肉"),
    ("我经常熬夜。", "我不再熬夜了，每天十点睡。", "十点"),
    ("我养了一缸金鱼。", "我的金鱼都死了。", "金鱼"),
    ("我骑电动车上班。", "我的电动车被偷了，现在坐公交上班。", "公交"),
    ("我18岁。", "我刚过完19岁生日。", "19"),
    ("我在上瑜伽课。", "我把瑜伽课退了。", "瑜伽"),
    ("我最喜欢的季节是夏天。", "我最喜欢的季节变成秋天了。", "秋天"),
    ("我下周五要去上海开会。", "上海的会议取消了。", "取消"),
    ("我一个人住。", "我和室友一起住。", "室友"),
    ("我弟弟今年十岁。", "我弟弟满十一岁了。", "十一"),
    ("我和室友合租。", "我现在一个人住了。", "一个人"),
    ("我住在一楼。", "我换到五楼住了。", "五楼"),
    ("我在网易上班。", "我上个月被网易辞退了。", "辞退"),
    ("我没有工作。", "我入职京东了。", "京东"),
    ("我开出租车。", "我不开出租车了，改送外卖。", "外卖"),
    ("我是研究生。", "我退学了。", "退学"),
    ("我和丈夫分居。", "我们已经离婚了。", "离婚"),
    ("我没有车。", "我买了一辆车。", "车"),
    ("我不会游泳。", "我会游泳了。", "游泳"),
    ("我不吃肉。", "我又开始吃肉了。", "吃肉"),
    ("我喜欢打游戏。", "我不打游戏了。", "游戏"),
    ("我早上七点起床。", "我现在五点半就起床。", "五点半"),
    ("我晚上十二点睡。", "我现在十点就睡了。", "十点"),
    ("我对虾过敏。", "我对虾不过敏了。", "虾"),
    ("我的体重是65公斤。", "我现在只有58公斤了。", "58"),
    ("我的邮箱是aa@qq.com。", "我不用aa@qq.com了，新邮箱是bb@qq.com。", "bb@qq.com"),
    ("我的邮箱是aa@qq.com。", "我换邮箱了，现在用bb@163.com。", "bb@163.com"),
    ("我的手机尾号是1234。", "我换号了，尾号7715。", "7715"),
    ("我在百度上班。", "我现在没工作，在家待着。", "没工作"),
    ("我没有工作。", "找到工作了，在顺丰当会计。", "顺丰"),
    ("我在移动上班。", "我换了家公司，现在在美团。", "美团"),
    ("我在一家超市当店长。", "我辞职了，现在自己开花店。", "花店"),
    ("我今年二十九。", "我今年三十了。", "三十"),
    ("我弹吉他。", "早就不弹吉他了，现在在学二胡。", "二胡"),
    ("我在学法语。", "法语放弃了，改学西班牙语了。", "西班牙语"),
    ("我每天喝咖啡。", "咖啡戒了，现在只喝茶。", "喝茶"),
    ("我对花粉过敏。", "我花粉过敏治好了。", "花粉"),
    ("我跟爸妈一起住。", "我搬出来自己租房了。", "租房"),
    ("我坐地铁去公司。", "我现在骑电动车去公司。", "电动车"),
    ("我不会开车。", "驾照拿到了。", "驾照"),
    ("我戴眼镜。", "我现在不用戴眼镜了。", "不再戴眼镜"),
    ("我练瑜伽。", "瑜伽不练了，改练普拉提。", "普拉提"),
    ("我学钢琴。", "钢琴不学了，现在学画画。", "画画"),
    ("我喝酒。", "酒早戒了。", "戒"),
    ("我对青霉素过敏。", "我青霉素不过敏了。", "青霉素"),
    ("我是山姆会员。", "我山姆会员到期没续，办了盒马的会员。", "盒马"),
]

ALIKE = [
    ("我住在杭州。", "我打算明年搬到南京。"),
    ("我住在杭州。", "我在南京出差。"),
    ("我住在杭州。", "我小时候住在南京。"),
    ("我住在杭州。", "我以前的同事搬到了上海。"),
    ("我在腾讯工作。", "我老公跳槽去了阿里。"),
    ("我在腾讯工作。", "我去年离开了百度。"),
    ("我在腾讯工作。", "我加入了一个读书会。"),
    ("我女朋友叫小美。", "我和前女友分手三年了。"),
    ("我的狗叫豆豆。", "我的猫叫毛毛。"),
    ("我有一个姐姐叫小红。", "我有一个姐姐叫小兰。"),
    ("我今年三十岁。", "我儿子今年三岁。"),
    ("我有一辆车。", "我卖了一套房。"),
    ("我抽烟。", "我同事戒烟了。"),
    ("我喜欢狗。", "我不喜欢狗粮的味道。"),
    ("我喜欢跑步。", "我今天不想跑步。"),
    ("我是老师。", "我以前是记者。"),
    ("我结婚了。", "我朋友离婚了。"),
    ("我会弹钢琴。", "我不会拉小提琴。"),
    ("我吃素。", "我不吃辣。"),
    ("我每天喝咖啡。", "我今天没喝咖啡。"),
    ("我住在杭州。", "如果我搬到北京，你会来看我吗？"),
    ("我在银行上班。", "我该不该辞职？"),
    ("我的邮箱是a@b.com。", "我公司的邮箱是c@d.com。"),
    ("我喜欢开车。", "我把车卖了。"),
    ("我老婆叫李娜。", "我女儿叫朵朵。"),
    ("我在学日语。", "我在学韩语。"),
    ("我最喜欢的电影是泰坦尼克号。", "我老公最喜欢的电影是教父。"),
    ("我生日是5月3号。", "我妈妈的生日是6月1号。"),
    ("我的狗三岁了。", "我的猫五岁了。"),
    ("我住在南京。", "我爸妈想搬到北京。"),
    ("我住在南京。", "我周末去苏州住了两天。"),
    ("我在移动公司上班。", "我朋友让我去联通上班。"),
    ("我是医生。", "我不是护士。"),
    ("我单身。", "我同事结婚了。"),
    ("我吃辣。", "我老婆不吃辣。"),
    ("我每天跑步。", "我今天没跑步。"),
    ("我养猫。", "我不喜欢狗。"),
    ("我有一只猫叫咪咪。", "我有一只狗叫旺财。"),
    ("我开宝马。", "我想把宝马卖了。"),
    ("我喜欢蓝色。", "我妈喜欢红色。"),
    ("我坐地铁上班。", "我昨天打车去公司。"),
    ("我坐地铁上班。", "我老婆骑电动车去公司。"),
    ("我对花粉过敏。", "我妹妹花粉过敏好了。"),
    ("我在移动上班。", "我想开咖啡店。"),
    ("我在移动上班。", "我开车去超市。"),
    ("我在移动上班。", "我朋友换了家公司。"),
    ("我不会开车。", "我老公驾照拿到了。"),
    ("我戴眼镜。", "我不用戴口罩了。"),
    ("我喝咖啡。", "他烟戒了。"),
    ("我练瑜伽。", "我今天瑜伽不练了。"),
    ("我练瑜伽。", "我妈瑜伽不练了。"),
    ("我学钢琴。", "我妹妹钢琴不学了。"),
    ("我对虾过敏。", "我花生不过敏了。"),
    ("我今年二十九。", "公司有两层，今年三十了。"),
]

NOBODYS = ["今天我学了一道新的菜，叫做清蒸鲈鱼。", "这家店叫老王面馆。", "他的腰围是30。", "楼高30米。"]


@pytest.fixture(scope="module")
def memory() -> Iterator[Memory]:
    with Memory(":memory:", model="offline") as opened:
        yield opened


def told(memory: Memory, user: str, text: str) -> set[str]:
    memory.add(text, user_id=user)
    return {item.text for item in memory.get_all(user_id=user)}


@pytest.mark.parametrize(("old", "new", "stands"), CHANGED)
def test_what_changed_is_changed(memory: Memory, old: str, new: str, stands: str) -> None:
    before, after = told(memory, f"{old}{new}", old), told(memory, f"{old}{new}", new)
    assert before
    assert not before & after
    assert stands in "；".join(after)


@pytest.mark.parametrize(("old", "new"), ALIKE)
def test_what_only_looks_alike_changes_nothing(memory: Memory, old: str, new: str) -> None:
    before, after = told(memory, f"{old}{new}", old), told(memory, f"{old}{new}", new)
    assert before <= after


@pytest.mark.parametrize("text", ["我现在没工作，在家待着。", "我离职了，在休息。", "我离职了，在准备考研。"])
def test_who_left_works_nowhere_until_he_says_where(memory: Memory, text: str) -> None:
    assert not any("在" in fact and "工作" in fact for fact in told(memory, f"nowhere {text}", text))


@pytest.mark.parametrize("text", NOBODYS)
def test_what_is_called_or_measured_is_nobodys_name_or_age(memory: Memory, text: str) -> None:
    kept = told(memory, text, text)
    assert not {"name", "age"} & {chinese_statement(fact).attribute for fact in kept}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("上周五搬到了南京", "2025-04-25搬到了南京"),
        ("去年三月结婚了", "2024年3月结婚了"),
        ("三年前毕业了", "2022年毕业了"),
        ("上个月15号去了青岛", "2025-04-15去了青岛"),
        ("昨晚看了电影", "2025-04-30晚上看了电影"),
        ("今年三十岁", "今年三十岁"),
        ("目前住在罗马", "目前住在罗马"),
        ("去年2月30日", "去年2月30日"),
    ],
)
def test_relative_times_become_dates(text: str, expected: str) -> None:
    assert dated_chinese(text, date(2025, 5, 1)) == expected


@given(st.integers(min_value=1, max_value=99))
def test_numbers_are_read_however_they_are_written(number: int) -> None:
    tens, ones = divmod(number, 10)
    digits = " 一二三四五六七八九"
    written = f"{digits[tens] if tens > 1 else ''}{'十' if tens else ''}{digits[ones] if ones else ''}".strip()
    assert chinese_number(written) == chinese_number(str(number)) == number
