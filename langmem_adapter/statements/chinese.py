"""The table of Chinese statements: 姐姐不再住在罗马 is about the sister, her home, Rome, and over.

A statement is taken apart from its front: whose it is, when, whether it is denied or over; the rest is one row of the table.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from langmem_adapter.records.graph import SELF, Triple
from langmem_adapter.statements.chinese_dates import WHEN, chinese_number, chinese_span
from langmem_adapter.statements.dates import Span
from langmem_adapter.statements.statement import LONGEST, SINGLE, Person, Row, Statement, rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

__all__ = ["ADVERBS", "KIN", "KINDS", "NAME", "chinese_statement"]

KINDS: Final = {
    kind: listed.split()
    for kind, listed in {
        "partner": "妻子 老婆 太太 媳妇 丈夫 老公 先生 爱人 对象 伴侣 女朋友 女友 男朋友 男友 未婚夫 未婚妻",
        "pet": "狗 小狗 狗狗 猫 小猫 猫咪 鹦鹉 仓鼠 兔子 乌龟 宠物 马 鸟 金鱼 龙猫 金毛 哈士奇 柯基 泰迪 柴犬 橘猫 拉布拉多 边牧 布偶猫",
        "friend": "好朋友 最好的朋友 朋友 闺蜜 同事 老板 上司 室友 舍友 邻居 同学 同桌 发小 哥们 老师 教练",
        "family": "妈妈 母亲 爸爸 父亲 妈 爸 爷爷 奶奶 外公 外婆 姥姥 姥爷 哥哥 弟弟 姐姐 妹妹 大哥 二哥 大姐 二姐 哥 弟 姐 妹 堂哥 堂弟 堂姐 "
        "堂妹 表哥 表弟 表姐 表妹 叔叔 舅舅 阿姨 姑姑 伯伯 舅妈 婶婶 姨妈 姑妈 侄子 侄女 外甥 外甥女 儿子 女儿 孙子 孙女 孩子 宝宝 嫂子 姐夫 妹夫 "
        "岳父 岳母 公公 婆婆 父母 爸妈 双胞胎 孩子们 家人",
    }.items()
}
"""Words for people and animals whom one has, by the attribute that they belong to."""

KIN: Final = "|".join(sorted((word for words in KINDS.values() for word in words), key=len, reverse=True))
"""The same words, longest first, for use in a pattern."""

_KIND_OF: Final = {word: kind for kind, words in KINDS.items() for word in words}
_MARRIED: Final = frozenset("妻子 老婆 太太 媳妇 丈夫 老公 先生 爱人".split())
_SAME_KIN: Final = {
    "妈妈": "母亲", "爸爸": "父亲", "妈": "母亲", "爸": "父亲", "姐": "姐姐", "妹": "妹妹", "哥": "哥哥", "弟": "弟弟", "小狗": "狗", "狗狗": "狗",
    "小猫": "猫", "猫咪": "猫", "女友": "女朋友", "男友": "男朋友", "好朋友": "朋友", "最好的朋友": "朋友", "老婆": "妻子", "太太": "妻子", "媳妇": "妻子", "老公": "丈夫",
}  # fmt: skip
_LATIN: Final = r"[A-Z][A-Za-z.'-]*(?: [A-Z][A-Za-z.'-]*){0,2}"
_SURNAMES: Final = (
    "王李张刘陈杨黄赵吴周徐孙马朱胡郭何林罗郑梁谢宋唐许韩冯邓曹彭曾萧田董袁潘蒋蔡余杜叶魏苏吕丁任沈姚卢姜崔钟谭陆汪范廖石韦贾夏付方邹熊孟秦邱侯江尹薛闫段雷龙陶"
    "贺顾毛郝龚邵万钱严武戴莫孔宫焦"
)
_KIND: Final = "人师员生者家手匠工长士民徒兵客主商友妈爸姐哥弟妹子党派族迷控粉男女身理监医官警年月日末"
NAME: Final = (
    rf"(?:{_LATIN}|(?:欧阳|司马|诸葛|上官|[{_SURNAMES}])[\u4e00-\u9fff]{{0,1}}[\u4e00-\u9fff](?<![{_KIND}])|[小阿老][\u4e00-\u9fff](?<![{_KIND}时候学孩家])"
    r"|(?P<twice>[\u4e00-\u9fff])(?P=twice)(?<![天年月人日往常刚渐慢好多早]))"
)
"""What is a person's name on its face: Anna, 王伟, 小红, 朵朵. Its group is `twice`."""

_JOB: Final = (
    r"[^，,的。]{0,10}的?[^，,的。]{0,8}(?:师|(?<![会党成队组团])员|教授|医生|护士|护士长|作家|记者|经理|顾问|科学家|研究员|学生|高中生|大学生|研究生|博士生|司机|飞行员|牙医|电工|农民|服务员"
    r"|演员|音乐家|歌手|画家|编辑|翻译|警察|消防员|军人|士兵|售货员|销售|秘书|助理|实习生|主管|总监|总裁|创始人|企业家|自由职业者|技术员|木匠|教练|法官|公务员|会计|厨子|保安"
    r"|快递员|外卖员|保姆|店长|店员|校长|院长|主任|博主|主播|客服|出纳|导游|空姐|编剧|导演|码农|干部|合伙人|主编|收银员)"
)
_CALLED: Final = rf"(?:{_LATIN}|[\u4e00-\u9fff·]{{1,5}}?)"
_MEASURES: Final = "个名位只条支辆台套本间家匹头口把张件部门份所"
_COUNT: Final = r"[-+−]?[两二三四五六七八九十几\d][两二三四五六七八九十百几\d.,]*"
_MACROS: Final = {
    "V": r"(?P<v>[^，,。；;]{1,40}?)",
    "L": r"(?P<v>.{1,120}?)",
    "N": r"(?P<n>[^，,。；;是]{1,12}?)",
    "IS": r"(?:现在)?(?:是|为|变成了?|换成了?|改成了?|改为了?|成了)\s?",
    "M": rf"(?:了|着|过)?(?:[一1]?[{_MEASURES}]|一些|一)?",
    "KIN": KIN,
    "CALLED": _CALLED,
    "W": r"(?P<w>[^，,。；;]{1,40}?)",
    "AS": rf"(?P<v>[^，,。]{{1,20}}?)(?:当|做|担任)了?(?:[一1]?[名个位])?(?P<job>{_JOB})",
    "JOB": rf"(?P<v>{_JOB})",
    "SICK": r"(?:糖尿病|高血压|高血脂|低血糖|哮喘|近视|贫血|失眠|抑郁|焦虑|脂肪肝|.{0,8}(?:病|症|炎|癌|瘤|结石|突出|过敏))",
    "BRAND": r"(?:丰田|本田|大众|宝马|奔驰|奥迪|特斯拉|比亚迪|福特|日产|现代|别克|吉利|长安|沃尔沃|路虎|保时捷|蔚来|理想|小鹏|哈弗|马自达|起亚|雪佛兰|[A-Z][A-Za-z]+)",
    "CAR": r"(?:.{0,10}(?:车|轿车|SUV|摩托))",
    "MAIL": r"(?:邮箱地址|邮箱|邮件地址|电子邮件|email|Email)",
    "TEL": r"(?:手机号码?|电话号码?|电话|手机号|联系方式|号码)",
    "OWNED": r"(?:血型|星座|学历|民族|专业|老板|密码|地址|住址|微信号?|网名|鞋码|车牌号?|时区|导师|班主任|手机|电脑|相机|QQ号?|身份证号?|属相|生肖|座右铭)",
    "VERB": r"(?:吃|喝|抽|吸|玩|看|读|听|用|练习|练|打|踢|跑|骑|坐|弹|拉|唱|跳|画|写|去|游|做|养|种|钓|下)",
    "OWN": r"(?:房子|房|公寓|别墅|电脑|手机|相机|吉他|钢琴|自行车|摩托车|电动车|股票|基金|健身卡|会员卡?)",
}
_TABLE: Final = rows(
    r"""
name | 名字: | (?:名字|姓名|全名|真名|大名)(?:叫做?|是|为)<V>
name + | 名字: | (?:把名字)?改(?:了)?名(?:字)?(?:叫做?|为|成|是)了?<V>
nickname - | : | (?:昵称|外号|绰号|小名)不再(?:是|叫)<V>
nickname | 昵称: | (?:昵称|外号|绰号|小名)(?:叫做?|是|为)<V>
home + | 住在:place | (?:从(?P<old>[^，,]{1,12}?)|离开(?P<left>[^，,]{1,12}?))?(?:[，,])?搬(?:家)?(?:到|去|回|进|来)了?<V>(?:居住|生活|定居|住)?
home + | : | 搬出[来去](?P<v>(?:自己|一个人|单独|独自)?住)
home - | 住在:place | (?:搬离|搬出|搬走)了?<V>?
home | 住在:place | (?:居住在|居住于|租住在|定居在?|常住|现居|家在|家住|安家在?|住在|住)(?!院|过|得|不|下|酒店|宾馆|民宿|旅馆)<V>
home | :place | 在<V>(?:居住|定居|租房子?住?|安家|落脚|买了房子?|买房)
home - | : | 搬家
home | : | (?P<v>一个人|独自|自己|单独)(?:在外面?)?住
home | : | (?:和|跟)(?P<v>[^，,]{1,8}?)(?:住在一起|一起住|同住|住)
home | : | (?:和.{1,6}|跟.{1,6})?(?P<v>(?:合租|租)了?(?:房子?|公寓)?)住?
employer - | 工作于:organization | 从<V>(?:辞职|离职|跳槽|退休|退伍|走人)了?(?:出来)?
employer - | 工作于:organization | (?:离开|辞去|辞掉|辞)了?(?P<v>[A-Z][\w .&-]*|.{1,16}?(?:公司|集团|银行|医院|出版社|事务所|工厂|酒店|餐厅|学校))(?:的工作|的职位)?
employer - | : | 被<V>(?:裁员|裁掉|裁|辞退|开除|解雇)
employer - | : | (?:已经)?(?:辞职|离职|裸辞|下岗|辞掉工作|辞了工作|辞了职|离了职|被裁员?|被辞退|被开除|失业)(?:回家|在家)?
employer - | : | 换了?(?:[一1]?[份个])?新?工作
employer | : | (?P<v>在找工作|找工作|待业|没有?工作|在家待业)
employer | 工作于:organization | 在<AS>
employer | 工作于:organization | 在(?P<v>[^，,。]{1,20}?)(?:工作|上班|任职|就职|供职|打工|做事|实习)
employer | 工作于:organization | (?:就职于|任职于|供职于|受雇于|公司(?:叫|是))<V>
employer + | 工作于:organization | (?:入职|跳槽到|跳槽去|跳到)了?<V>(?:工作|上班)?
employer + | 工作于:organization | (?:换到|转到|调到|去|到|进|加入)了?<V>(?:去)?(?:工作|上班)
employer + | 工作于:organization | (?:加入|换到|进|进入|转到|调到|去)了?(?P<v>[A-Z]\w+|[^，,]{1,14}(?:公司|集团|银行|医院|出版社|事务所)|阿里巴巴|腾讯|百度|华为|小米|字节跳动|字节|京东|美团|网易)
employer + | 工作于:organization | (?:被<V>录用|找到[^，,]{0,6}工作[，,]在<W>)
job + | : | (?:自己)?(?P<v>创业|单干)
job + | : | (?P<v>退休)(?:在家)?
job | 职业:occupation | 是(?:[一1]?[名个位])?(?P<was>退休)(?:的)?<JOB>
job | 职业:occupation | (?:是|当|做|在做|在当)<M><JOB>
job + | 职业:occupation | (?:成为|成|当上|升职?(?:为|到|做|当|成)?|晋升(?:为|成|到)?|提拔(?:为|成)|升任|转(?:行|岗|型)?(?:去|到|成为|成|为|做|当)|改行(?:去)?(?:做|当))<M><JOB>
job + | : | (?:转行|改行)(?:去|到|成|为)?(?:做|当|干)?<M>(?P<v>[^，,]{2,10})
job | 职业:occupation | 是(?:[一1][名位])(?P<v>[^，,]{1,14}(?<!党员)(?<!团员)(?<!球迷)(?<!粉丝)(?<!志愿者)(?<!主义者)(?<!母亲)(?<!父亲))
job | 职业:occupation | (?:职业|工作|本职工作)<IS><M><V>
job | : | (?:从事|在做)<V>(?:行业|工作|领域|方面)?(?:的工作)?
job + | : | (?P<v>开了?[一1]?[家间个][^，,]{0,10}(?:店|公司|餐厅|餐馆|工作室|咖啡馆|咖啡厅|民宿|诊所|工厂|饭馆|书店))
school - | 就读于:organization | (?:毕业于|从)(?P<v>[^，,]{2,20}?(?:大学|学院|中学|高中|学校|[大中]))(?:毕业)?
school - | : | (?:大学|高中|研究生|本科|博士|硕士)?(?:毕业|退学|辍学|休学)
school + | 就读于:organization | (?:转学(?:到|去)|转到|考上|考入|考进|被)了?(?P<v>[^，,]{1,16}?(?:大学|学院|中学|高中|学校|小学|[大中]))(?:录取|读书|上学)?
school + | 就读于:organization | 转学(?:到|去)了?<V>
school | 就读于:organization | (?:就读于|就读|在)(?P<v>[^，,]{1,20}?(?:大学|学院|中学|高中|学校|小学|清华|北大|复旦|浙大))(?:就读|读书|上学|上课|学习|念书|读研|读博|读本科|读.{1,8}|学.{1,8})?
school | 就读于: | 在<V>(?:上学|读书|念书|留学|读研|读博)
school - | : | (?:从|在)<V>(?:退学|辍学)
detail | :通勤 | (?P<v>(?:坐|骑|开|走|步行|打)[^，,]{0,6})(?:上班|上学|通勤)
detail + | :专业 | 转(?:专业)?(?:到|去|成)了?(?P<v>[^，,]{1,10}?)(?:专业|系)
detail + | : | (?P<n><OWNED>)从[^，,]{1,16}?(?:换|改|变|升)(?:成|到|为)了?<V>
detail | :年级 | (?:在)?(?:读|上|念|是)(?P<v>小学|初中|高中|大学|硕士|博士|研究生|大[一二三四五]|高[一二三]|初[一二三]|研[一二三]|博[一二三四]|(?:小学)?[一二三四五六]年级)(?:学生|的学生)?
partner - | 结婚对象:person | (?:和|跟|与)<V>(?:已经|刚刚?|终于)?(?:分手|分开|散) | 恋爱 {v}
partner - | : | (?:已经)?(?:分手|失恋) | 恋爱
partner + | 婚姻状况: | (?:和|跟|与)(?P<ex>.{1,12}?)(?:已经|刚刚?)?(?P<v>离婚|离异) | 离婚
partner + | 结婚对象:person | (?:(?:和|跟|与)<V>(?:已经|刚刚?|终于)?(?:结婚|领证|登记|成婚|办了?婚礼)|(?:嫁给|娶)了?<W>) | 已婚 {v}
partner + | : | (?:和|跟|与)<V>(?:已经|刚刚?|终于)?(?:订婚) | 订婚 {v}
partner + | : | (?:在)?(?:和|跟|与)<V>(?:在一起|谈恋爱|恋爱|交往|确定关系|同居|约会中) | 恋爱 {v}
partner | 婚姻状况: | (?:是|恢复|还是)?(?P<v>单身|未婚)(?:狗|贵族|状态)? | 单身
partner + | : | (?:妻子|老婆|丈夫|老公|先生|太太|爱人|老伴)(?:已经)?(?:去世|离世|过世|病逝) | 丧偶
partner | 婚姻状况: | (?:是|处于)?(?P<v>已婚|结婚|领证|再婚|成家)(?:.{0,6}年)?(?:状态)? | 已婚
partner | 婚姻状况: | (?P<v>离婚|离异|丧偶|订婚)(?:.{0,6}年)? | {v}
partner + | : | (?:恋爱|谈恋爱|脱单|在谈恋爱)(?:.{0,6}年)? | 恋爱
diet | 饮食: | (?:是|改|开始)?(?:[一1]?[名个位])?(?P<v>(?:严格)?(?:素食主义者|素食者|素食|纯素|吃素|全素|清真|杂食|生酮|生酮饮食|低碳饮食))
diet | : | (?:重新|又)?(?:开始)?(?P<v>吃(?:.{0,3}[、和])?(?:肉|荤|鱼|海鲜))
age | 年龄: | (?:今年|刚满|满|已经)(?P<v>\d\d|[二三四五六七八九]?十[一二三四五六七八九]?)
age | 年龄: | (?:今年|刚|已经|满|刚满|年龄是?|是|快|过了){0,3}<V>(?:周?岁)(?:生日|半)?了?
birthday | 生日:date | 生日(?:是|在)<V>
birthday | : | (?:出生于|出生在|生于)(?P<v>.*\d.*)|(?P<w>.*[年月日号])(?:出生|生)的?
birthplace | 出生于:place | (?:出生于|出生在|生于)<V>|(?:在)<W>出生
origin | 来自:place | (?:来自|老家(?:是|在)?|家乡(?:是|在)?|籍贯是?)<V>
gender | : | (?:是)?(?:[一1]?个)?(?P<v>男|女)(?:生|人|性|孩子?|的)?
nationality | 国籍: | (?:国籍(?:是|换成了?)|入了?|加入了?|拿到了?)<V>(?:国籍|籍)
language | 母语: | 母语(?:是|为)<V>
speak | 会说:language | (?:会|能)(?:说|讲)<L>|说<W>(?:语|话)
skill | 会: | (?:学会了?|会|擅长)(?!去|来|在|有|是|把|被|和|跟|对|让|为|尽|再|认真|考虑|好好|试|努力|注意|听|想|继续|尝试|花|觉得|感|一直|因|先|多|很|的)<L>
religion | : | (?:信仰?|皈依)了?<V>|(?:是)(?:[一1]?[名个位])?(?P<w>佛教徒|基督徒|穆斯林|天主教徒|无神论者)
phone | 电话: | <TEL>(?:号码?)?<IS><V>
email | 邮箱: | <MAIL><IS><V>
height | 身高: | 身高(?:是|有|长到了?|已经)?\s?(?P<v>.*[\d一二三四五六七八九十].*)
height | 身高: | (?P<v>[一1]米[\d一二三四五六七八九]+)(?:高)?
weight | 体重: | (?:体重(?:是|有|降到了?|涨到了?|减到了?|已经)?|(?:减肥|增肥)?(?:瘦|胖|减|增重|涨|掉)到了?)\s?(?P<v>[^，,]*[\d一二三四五六七八九十][^，,]*(?:公斤|斤|kg|KG|千克)?)
salary | : | (?:月薪|年薪|工资|薪水|薪资|收入)(?:是|有|涨到了?|降到了?|变成了?|大概是?|大约)?(?P<v>[^，,]*[\d一二三四五六七八九十万千][^，,]*)
goal | : | (?:目标|梦想|理想|人生目标)(?:是|变成了?)<V>
favorite | 最喜欢的: | 最(?:喜欢|爱|喜爱|欣赏)(?:吃|喝|看|听|玩|去)?的<N><IS><L>
detail | : | (?P<n><OWNED>)<IS>(?:[一1]?[名个位部台])?<V>
detail + | : | (?:用的?是?|换成?了?)<M>(?P<v>[^，,的]{1,10}?)(?:的)?(?P<n>手机|电脑|相机|笔记本)
prefer | 偏好: | (?:喜欢|偏爱|偏好|更喜欢|更爱|宁愿)(?:吃|喝)?<V>[，,]?(?:而不是|而非|胜过|多过|超过)(?P<less>.+)
prefer | 偏好: | 比起(?P<less>[^，,]+?)[，,]?(?:更|还是|比较)(?:喜欢|爱)(?:吃|喝)?<V>
like | 偏好: | (?:偏爱|偏好|更喜欢|更爱)(?:吃|喝)?<L>
like | 喜欢: | (?:最|越来越|开始)?(?:喜欢上了?|爱上了?|迷上了?|喜欢|喜爱|热爱|享受|爱好(?:是|有)?|热衷于?|痴迷于?|沉迷于?|钟爱|酷爱|偏爱|爱)(?:吃|喝)?(?!你|您)<L>
like - | : | 对<L>(?:失去|没有?)了?兴趣
like | 喜欢: | 对<L>(?:很|非常|特别|十分|越来越|也)*(?:感兴趣|有兴趣|着迷)
allergy | 过敏于: | 对<L>(?:严重|轻微|有点|有些)?过敏
health | : | (?:有|患有|患了|得了|患上了?|被?确诊了?(?:为|患有)?|被诊断(?:出|为)(?:患有)?|查出了?)(?:轻度|轻微|严重的?|慢性)?(?P<v><SICK>)
health - | : | (?P<v><SICK>)(?:已经)?(?:治好|痊愈|好|康复)|治好了?(?P<w><SICK>)
health | : | (?P<v>怀孕|近视|色盲|左撇子|失眠)(?:.{1,5}[月周])?
health - | : | (?:停了?|停用|停吃)(?P<v>[^，,]{1,12})
health | : | (?:吃|服用|服)(?:着|了)?(?P<v>[^，,]{0,10}(?:药|片|胶囊|素|丸))
vehicle | : | 车子?<IS><M><V> | {v} 车
vehicle + | 有: | (?:(?P<swap>换成?了?)|买了?|提了?|入手了?)<M>(?P<v><BRAND>)(?:的?(?:车|汽车))? | {v} 车
vehicle + | 有: | (?:买了?|(?P<swap>换了?)|提了?|有了?|拥有)<M>(?:新)?(?P<v><CAR>)(?!票|位) | {v} 车
vehicle | : | 开(?:着|的是)?(?:一?[辆台]|(?=<BRAND>))<V>(?:车)? | {v} 车
study - | : | (?:放弃|停止)了?学习?(?:习)?<V>
any - | : | (?:把|将)(?P<v>[^，,]{1,12}?)(?:的(?:计划|行程|会员卡?|卡))?(?:已经|都|给)?(?:卖掉?|送人?走?|送给.{1,6}|扔掉?|丢|退掉?|停掉?|注销|戒掉?|取消|弄丢|卸载)
pet - | : | (?:养的)?(?P<v>[^，,的]{1,6}?)(?:去世|死|离世|走丢|走|没)
any - | : | (?P<v>[^，,]{1,10}?)(?:被偷|被盗|报废|坏掉|到期|弄丢|丢|被没收)(?:走)?
any - | : | 离开了?<V>
any - | : | (?:卸载|卖掉?|送走|扔掉?|丢|弄丢|退掉?|退订|注销|取消)了?(?P<v>[^，,]{1,12}?)(?:的?(?:会员卡?|卡|年卡|订阅|套餐|课程?))?
plan - | : | (?:取消|放弃)了?(?P<v>[^，,]{1,16}?)(?:的)?(?:计划|打算|行程|旅行)|(?P<w>[^，,]{1,12}?)的?(?:行程|旅行|旅游|计划|机票|航班|会议|聚会|约会|活动|比赛|演唱会|婚礼)(?:都|已经|被)?取消
habit - | : | 戒(?:掉)?了?(?P<v>[^，,了]{1,6})
any - | : | (?:停止|放弃)了?(?P<v>[^，,]{2,10})
event | : | (?:参加|完成|通过|获得|收到|经历|见|看|买|吃|去|到)了.*
plan | : | (?:打算|计划|准备|想要?|将要?|将会|希望|考虑|决定|要|下次|即将)(?P<v>[^，,]{2,60}.*)|(?P<w>[\d一二三四五六七八九十]{1,3}月(?:份|.{1,2}[号日])?(?:要)?(?:去|飞).{2,20})
study | : | (?:在|开始)?上(?P<v>[^，,了]{1,10}课)
study | 学: | (?:在|开始)?(?:跟.{1,6}?)?(?:学习?|自学|备考|攻读|研究)(?:着)?(?!了|过|到|会|校|生|期|完|的)<L>
habit | : | (?P<verb><VERB>)(?!世|年)(?P<obj>[^了过，,]{0,40})
habit | : | (?:在)?(?P<v>[^，,]{0,16}(?:健身|锻炼|跑步|游泳|冥想|瑜伽|早起|熬夜|散步|午睡|骑车|爬山|慢跑|失眠))
own | 有: | (?:有|拥有)(?!点|些|疑问|问题|事|时候|时|没有|空|关|人)<L>
family + | : | (?P<v>当(?:爸爸|妈妈|爹|妈|爸))
own | : | (?:订阅|办|开通|充)了<M><V>
own + | : | 买了?<M>(?P<v>[^，,]{0,10}<OWN>)
""",
    _MACROS,
)


_ADVERB: Final = re.compile(
    rf"{WHEN}|真的|真|也|还(?!贷|钱)|都(?!江)|一直|其实|就(?!读|职|业)|只|刚刚|刚|已经|很|非常|特别|十分|超级|超|比较|挺|如今|现在|目前|全家|一家人|通常|总是|总|经常|常常|常|有时候?|平时"
    r"|从小|本来|自己(?!住)|独自(?!住)|一个人(?=租|生活|在)|正在(?=[^，]{2})|仍然|仍|依然|又|再次|终于|即将|今年(?!.{0,6}岁)|周末|周[一二三四五六日](?:都|会)?|早上|晚上|偶尔|主要|基本上?|确实|当然"
    r"|每(?:天|周|年|晚|早|个?月|个?周末|周[一二三四五六日末])(?:早上|晚上|早|晚)?(?:都|会){0,2}|会(?=经常|常)|有点|改(?=喝|吃|学|用|玩|做|打|住|读|练|骑|坐|成)"
)
ADVERBS: Final = re.compile(rf"(?:{_ADVERB.pattern}|会(?=经常|常))+")
"""What stands before a predicate and says how or when."""

_FORMER: Final = re.compile(r"(?:以前|曾经|曾|过去(?!的)|原来|原先|之前|小时候)(?P<v>.+?)过?")
_OVER: Final = re.compile(
    r"(?:已经)?不再(?P<v>.+?)了?|(?:已经)?不(?!再|过|仅|但|只|得|久|同)(?P<w>.+)了|(?:已经)?没有?(?P<x>(?!过).+?(?<!过))了"
)
_DENIED: Final = re.compile(
    r"(?:从来不|从不|并不|不太|不怎么|不是很|不(?!再|同|过|仅|但|只|得|少|错|久))(?P<v>.+)|(?P<hates>讨厌|痛恨|受不了|反感|厌恶)(?P<w>.+)|没有?(?P<x>(?!过).+)"
)
_DENIED_WITHIN: Final = re.compile(r"(?P<v>对.+?)(?:其实|并|根本|已经)?不(?P<w>(?:再)?过敏|感兴趣)了?")
_PLAIN_END: Final = re.compile(r"[\s。！!.~～；;，,]+$")
_MINE: Final = re.compile(r"^(?:用户|我们|我|本人|咱们)的?")
_BIRTH: Final = re.compile(r"出生|生于|生日")
_UNSURE: Final = re.compile(
    r"[？?；;“”\"]|如果|要是|也许|或许|可能|大概|好像|似乎|据说|听说|差点|除了|偶尔|很少|几乎|是不是|有没有|明天|后天|下周|下个?月|明年"
)
_STOPPED: Final = frozenset("habit study like plan".split())  # that one has stopped is worth a memory of its own
_PRONOUN: Final = re.compile(r"(?P<who>他们|她们|它们|他|她|它|这个|那个)(?P<own>的)?(?P<rest>.+)")
_KIN_FRONT: Final = re.compile(
    rf"(?P<kin>{KIN})(?<![马鸟])(?:(?P<name>{NAME})(?=(?P<after>.+)))?(?P<own>的(?!是|$))?(?P<rest>.+)"
)
_NAME_FRONT: Final = re.compile(rf"(?P<name>{NAME})(?<!周末)(?<!高[中考])(?<!江[苏西])(?P<own>的(?!是|$))?(?P<rest>.+)")
_NAMING: Final = re.compile(
    rf"(?P<kin>{KIN})(?:的?名字)?(?:(?:名叫|叫做?|(?<=名字)[是为])(?P<name>{_CALLED})|是(?P<is>{NAME}))"
)
_HAS: Final = re.compile(
    rf"(?:有了?|养了?|养着|收养了?|领养了?|生了?|交了?|买了?|找了?|刚?有)(?P<count>[-+−]?[一两二三四五六七八九十几\d]*[{_MEASURES}]?)(?:叫做?(?P<before>{_CALLED})的)?"
    rf"(?P<adj>[^，,叫不和、\d]{{0,5}}?)(?P<kin>{KIN})(?:[，,]?(?:她|他|它)?(?:的?名字叫|名叫|叫做?|叫)(?P<after>{_CALLED})(?P<more>[，,].+)?)?"
)
_MET: Final = re.compile(rf"(?:和|跟|见了|见到|认识了)(?P<name>{_LATIN})")
_MEASURE: Final = re.compile(rf"^(?:了|着|过)?(?:[一1][{_MEASURES}]|个|一些)(?=.)")
_COUNTED: Final = re.compile(
    rf"(?P<number>{_COUNT})(?P<measure>[{_MEASURES}杯包根瓶碗顿次片场遍]|小时|分钟|公里)(?P<rest>.*)"
)
_PLACES: Final = re.compile(
    r"(?:北京|上海|广州|深圳|杭州|南京|苏州|成都|重庆|武汉|西安|天津|长沙|郑州|青岛|大连|宁波|厦门|福州|合肥|济南|沈阳|哈尔滨|长春|昆明|贵阳|南宁|南昌|太原|石家庄|兰州|西宁|银川"
    r"|乌鲁木齐|拉萨|海口|三亚|珠海|佛山|东莞|无锡|常州|温州|香港|澳门|台北|台湾|中国|美国|英国|法国|德国|日本|韩国|加拿大|澳大利亚|澳洲|新加坡|意大利|西班牙|俄罗斯|印度|泰国|巴西"
    r"|纽约|伦敦|巴黎|东京|柏林|罗马|悉尼|旧金山|洛杉矶|多伦多|首尔|欧洲|四川|广东|浙江|江苏|山东|河南|河北|湖南|湖北|福建|云南|安徽|里昂|米兰|波士顿|西雅图|硅谷|国外|海外|外地"
    r"|老家|本地|家里?|外面|线上|户外|室内|工地|办公室|晚上|白天|夜里|[^，,]{1,6}(?:[省市县镇村区]|(?<!阿)里))"
)


@dataclass(frozen=True, slots=True)
class _Who:
    """Whom a statement is about: as it is compared, as the graph names it, and what its front says on its own."""

    key: str = ""
    name: str = SELF
    people: tuple[Person, ...] = ()
    implied: tuple[Triple, ...] = ()
    type: str = ""
    known: bool = True


def chinese_statement(text: str, known: frozenset[str] = frozenset()) -> Statement:
    """Take a Chinese statement apart, with or without 用户 or 我 in front.

    Args:
        text: Any text; what no row understands has no attribute.
        known: Names in small letters with which a statement may open.

    Example:
        >>> told = chinese_statement("姐姐不再住在罗马")
        >>> told.subject, told.attribute, told.value, told.ended
        ('姐姐', 'home', '罗马', True)
        >>> [(t.source, t.relation, t.target) for t in chinese_statement("妹妹小红住在罗马").relations]
        [('user', '有妹妹', '小红'), ('小红', '住在', '罗马')]
    """
    plain = _PLAIN_END.sub("", text.strip())
    if len(plain) > LONGEST:
        return Statement(text)
    body, span = (plain, Span()) if _BIRTH.search(plain) else chinese_span(plain)
    said = _about(_bare(_MINE.sub("", body, count=1)), _Who(), span, known)
    empty = said.ended and said.attribute not in _STOPPED and re.match(r".{0,8}?不再", body) is not None
    met = tuple(Person("", found["name"]) for found in _MET.finditer(body))
    relations = () if _UNSURE.search(plain) else said.relations
    return replace(said, text=text, empty=empty, people=said.people + met, relations=relations)


def _about(body: str, owner: _Who, span: Span, known: frozenset[str]) -> Statement:
    """A statement about *owner*, or about somebody of his whom it names first."""
    if naming := _NAMING.fullmatch(body):
        return _called(owner, naming["kin"], naming["name"] or naming["is"])
    for who, rest, own in _fronts(body, owner, known):
        inner = own and rest.startswith(tuple(_KIND_OF))
        said = _about(rest, who, span, known) if inner else _said(_bare(rest), who, span)
        if said.attribute or said.subject != who.key:
            return said
    return _said(body, owner, span)


def _fronts(body: str, owner: _Who, known: frozenset[str]) -> Iterator[tuple[_Who, str, bool]]:
    if (found := _PRONOUN.fullmatch(body)) and not owner.key:
        yield _Who(found["who"], "", known=False), found["rest"], bool(found["own"])
        return
    if found := _KIN_FRONT.fullmatch(body):
        yield from _kin_fronts(found, owner)
    name = next((body[: len(name)] for name in known if body.casefold().startswith(name)), "")
    if owner.key:
        return
    if name or (found := _NAME_FRONT.fullmatch(body)):
        name = name or found["name"]  # type: ignore[index]
        rest = body[len(name) :]
        if rest:
            yield _Who(name.casefold(), name, (Person("", name),)), re.sub("^的(?!是)", "", rest), rest[0] == "的"


def _kin_fronts(found: re.Match[str], owner: _Who) -> Iterator[tuple[_Who, str, bool]]:
    kin, name = found["kin"], found["name"]
    key = f"{owner.key} {_SAME_KIN.get(kin, kin)}".strip()
    if name:
        link = Triple(owner.name, _kin_relation(kin), name, target_type=_type(kin))
        yield (
            _Who(name.casefold(), name, (Person(kin, name),), (link,), _type(kin), owner.known),
            found["rest"],
            bool(found["own"]),
        )
    rest = found.string[found.end("kin") :]
    whose = f"{owner.name}的{kin}" if owner.key else kin
    who = _Who(key, whose, (Person(kin, ""),), (), _type(kin), owner.known)
    yield who, re.sub("^的(?!是|$)", "", rest), rest[:1] == "的"


def _called(owner: _Who, kin: str, name: str, count: str = "") -> Statement:
    """Somebody whom the owner has: 姐姐叫Ann, 有一个叫Ann的姐姐, 有两只猫."""
    kind, same = _KIND_OF[kin], _SAME_KIN.get(kin, kin)
    state = "已婚" if kin in _MARRIED else "订婚" if kin.startswith("未婚") else "恋爱"
    value = f"{state} {name}" if kind == "partner" else f"{count} {same} {name}"
    targets = _people(name) if name else (kin,)
    single = False if len(targets) > 1 else None
    relation = _kin_relation(kin) if name else "有"
    triples = tuple(
        Triple(owner.name, relation, target, owner.type, _type(kin), single=single)
        for target in targets
        if owner.known and target
    )
    people = (Person(kin, targets[0] if name and targets else ""), *owner.people)
    also = _of_child(owner.key) if kin in {"儿子", "女儿", "宝宝", "双胞胎"} else ()
    value = " ".join(value.split())
    return Statement("", owner.key, kind, value, people=people, relations=owner.implied + triples, also=also)


def _of_child(subject: str) -> tuple[Statement, ...]:
    """Who has a daughter has children, and is pregnant no more."""
    return (
        Statement("", subject, "family", "孩子"),
        Statement("", subject, "health", "怀孕", positive=False, ended=True),
    )


def _said(body: str, who: _Who, span: Span) -> Statement:
    """What is said of somebody, by the first row that fits."""
    told, positive, ended = _sign(body)
    told = _bare(told)
    if (found := _HAS.fullmatch(told.removesuffix("了"))) and (found["after"] or not found["more"]):
        count = _value(f"{found['count']}个")[:-1].strip() if found["count"] else ""
        has = _called(who, found["kin"], found["before"] or found["after"] or "", count)
        triples = tuple(replace(one, ended=ended) for one in has.relations if positive or ended)
        return replace(has, positive=positive, ended=ended, relations=triples)
    for row in _TABLE:
        if match := row.pattern.fullmatch(told.removesuffix("了")) or row.pattern.fullmatch(told):
            return _of_row(row, match, who, span, positive=positive, ended=ended)
    return Statement("", who.key, positive=positive, ended=ended, people=who.people, relations=who.implied)


def _sign(body: str) -> tuple[str, bool, bool]:
    """What is affirmed, denied or over; whether it is affirmed; whether it is over."""
    if found := _DENIED_WITHIN.fullmatch(body):
        return found["v"] + found["w"].removeprefix("再"), False, found["w"].startswith("再")
    if found := _OVER.fullmatch(body):
        return found["v"] or found["w"] or f"有{found['x'].removeprefix('有')}", False, True
    if found := _FORMER.fullmatch(body):
        return found["v"], False, True
    if found := _DENIED.fullmatch(body):
        if found["hates"]:
            return f"喜欢{found['w']}", False, False
        return found["v"] or f"有{found['x'].removeprefix('有')}", False, False
    return body, True, False


def _of_row(row: Row, match: re.Match[str], who: _Who, span: Span, *, positive: bool, ended: bool) -> Statement:
    groups = match.groupdict()
    said = groups.get("v") or groups.get("w") or (f"{groups['verb']}{groups['obj']}" if "verb" in groups else "")
    attribute, value, noun = row.attribute, _value(said), groups.get("n") or ""
    if attribute == "detail" and row.target:
        noun = row.target
    if attribute == "employer" and _PLACES.fullmatch(value):
        attribute = ""
    if attribute == "age":
        value = str(chinese_number(value)) if re.fullmatch(r"\d+|[零一二两三四五六七八九十百]+", value) else value
    if attribute == "pet":
        value = " ".join(re.split(rf"({KIN})", value, maxsplit=1)).strip()
    if attribute == "family":
        value = "孩子"
    if attribute == "habit" and "verb" in groups:
        value = f"{groups['verb']}{_counted(groups['obj'])}"
    also = _also(attribute, value, groups, who.key) if positive else ()
    ended = ended or row.kind == "ends" or bool(groups.get("was"))
    positive = positive and row.kind != "ends"
    compared = row.put.format(v=value) if row.put else value
    triples = tuple(_triples(row, match, who, span, value, positive=positive, ended=ended))
    key = f"{who.key} {noun}".strip()
    relations = who.implied + (triples if who.known else ())
    ended = ended and not positive
    return Statement("", key, attribute, compared, positive, ended, people=who.people, relations=relations, also=also)


def _also(attribute: str, value: str, groups: dict[str, str | None], subject: str) -> tuple[Statement, ...]:
    """What else is said: who is a manager somewhere is a manager; who is retired works nowhere."""
    over = partial(Statement, "", positive=False, ended=True)
    if groups.get("job"):
        return (Statement("", subject, "job", groups["job"] or ""),)
    if groups.get("swap"):
        return (over(subject, "vehicle", "车"),)
    if attribute == "school" and not value:
        return (over(f"{subject} 年级".strip(), "detail"),)
    if attribute == "study":
        return (over(subject, "plan", f"学{value}"),)
    return (over(subject, "employer"),) if value == "退休" else ()


def _bare(told: str) -> str:
    while (found := ADVERBS.match(told)) and found.end() < len(told):
        told = told[found.end() :].lstrip("，, ")
    return told


def _value(said: str) -> str:
    """A value as it is compared: no measure word before one thing, digits before several."""
    plain = _MEASURE.sub("", said.strip(" ：:"), count=1)
    if (found := _COUNTED.fullmatch(plain)) and found["measure"] in _MEASURES:
        return f"{_digits(found['number'])} {found['rest']}"
    return plain


def _counted(obj: str) -> str:
    found = _COUNTED.fullmatch(re.sub(r"^[一1](?=[杯包根瓶碗顿次片场遍个小分公])", "1", obj))
    if found is None:
        return obj
    return f"{found['rest'].removeprefix('的')} {_digits(found['number'])} {found['measure']}"


def _digits(number: str) -> str:
    return str(chinese_number(number)) if re.fullmatch("[二两三四五六七八九十百]+", number) else number


# ── relations ───────────────────────────────────────────────────────────────────────────────────────────────────────────

_NO_THING: Final = re.compile(
    r"[，,。！!：:（）()\n]|[我你您他她它]|什么|怎么|因为|但是|但|时候|一切|所有|东西|这|那|每|起来|不|没|^(?:在|和|跟|叫|名叫|把|被|给|让|用来|到|得|上了|过|了|来|去了|于"
    r"|完|见|的|一起|自己)|(?:的|了|着|过|得|们|后|前|时)$"
)
_WHOLE: Final = re.compile(r"和平|和服|温和|和尚|共和|随和|和谐|饱和|柔和|和牛|和面|大和")
_NO_PLACE: Final = re.compile(
    r"^(?:家|一|这|那|学校|宿舍|公寓|酒店|公司|城里|乡下|农村|楼|别墅|父母|爸妈|医院|里|外面|附近|海边|山|隔壁|对面)|(?:里|上|附近|旁边|房子|楼|边|家|宿舍)$|的"
)
_NO_OWN: Final = re.compile(
    r"(?:问题|会议?|约会|考试|课|事情?|时间|空|面试|想法|航班|机会|感觉|兴趣|关系|办法|计划|打算|作业|任务|聚会|婚礼|活动|点|发烧|感冒|头疼)$|[在是住去来会]"
)
_ONE: Final = frozenset("favorite detail language nickname phone email height nationality".split())
_DONE_BY: Final = frozenset("吃喝抽玩看学读听用练")


def _triples(
    row: Row, match: re.Match[str], who: _Who, span: Span, value: str, *, positive: bool, ended: bool
) -> Iterator[Triple]:
    groups = match.groupdict()
    relation, targets = _edges(row, groups, value)
    if row.attribute == "like" and not positive and not ended:
        relation = "不喜欢"
    elif not positive and not ended:
        return
    since, until = _held(span, began=row.kind == "begins", ended=ended)
    single = False if len(targets) > 1 and row.attribute in SINGLE else True if row.attribute in _ONE else None
    kind = "" if row.attribute == "detail" else row.target
    link = Triple(who.name, relation, "", who.type, kind, valid_from=since, valid_to=until, ended=ended, single=single)
    if old := _places(groups.get("old") or groups.get("left") or ""):
        yield replace(link, target=old[0], valid_from=None, valid_to=since, ended=True)
    yield from (replace(link, target=name) for name in targets if relation and name)
    if job := _name(groups.get("job") or ""):
        yield replace(link, relation="职业", target=job, target_type="occupation")


def _edges(row: Row, groups: dict[str, str | None], value: str) -> tuple[str, tuple[str, ...]]:
    """The relation that a row states, and the names of what is at its other end."""
    if "verb" in groups:
        verb = groups["verb"] or ""
        return (verb if verb in _DONE_BY else ""), _listed(_value(groups["obj"] or ""))
    if row.target == "place":
        return row.relation, _places(value)
    if row.target == "organization":
        return (
            ("工作地点" if len(value) > 1 and value not in {"家里", "外面"} else "", (value,))
            if (row.attribute == "employer" and _PLACES.fullmatch(value))
            else (row.relation, (_name(value) if not re.search("[的和上下]$|的", value) else "",))
        )
    if row.attribute == "favorite":
        return f"{row.relation}{groups['n']}", _listed(value)
    if row.attribute == "detail":
        plain = groups.get("n") in _TOLD
        return (groups["n"] or "" if plain else ""), (_name(value),)
    if row.attribute == "job" and value.endswith("生"):
        return "是", (_name(value),)
    if row.attribute == "own":
        return row.relation, tuple(name for name in _listed(value) if not _NO_OWN.search(name))
    if row.target in {"person", "occupation", "date"}:
        return row.relation, (_name(value),)
    return row.relation, _listed(value)


_TOLD: Final = frozenset("血型 星座 学历 民族 专业 老板 导师 班主任 属相 生肖".split())


def _held(span: Span, *, began: bool, ended: bool) -> tuple[datetime | None, datetime | None]:
    """Since when and until when; "no longer … since 2019" held until then."""
    if ended and span.since and not span.until:
        return None, span.since
    since = span.since or (span.at if began else None)
    until = span.until or (span.at if ended else None)
    return (None, None) if since and until and until <= since else (since, until)


def _name(value: str, longest: int = 12) -> str:
    plain = value.strip(" '“”《》")
    fits = 0 < len(plain) <= longest if not plain.isascii() else re.fullmatch(r"[\w][\w .&'+#/@-]{0,40}", plain)
    return plain if fits and not _NO_THING.search(plain) else ""


def _listed(value: str) -> tuple[str, ...]:
    """The things of a list; none where "and" joins what may be one (红色和蓝色的衣服)."""
    plain = _unmeasured(value)
    pieces = (
        [plain]
        if _WHOLE.search(plain)
        else re.split("、|[，,]|以及|和" if re.search("、|和", plain) else "以及", plain)
    )
    if len(pieces) == 1:
        return tuple(filter(None, [_name(plain)]))
    longest = 4 if "，" in plain or "," in plain else 6  # behind a comma, a clause is near
    names = tuple(_name(_unmeasured(piece), longest) for piece in pieces)
    return names if all(names) and not any("的" in name for name in names) else ()


def _unmeasured(value: str) -> str:
    return re.sub(rf"^(?:[一两二三四五六七八九十几\d]+ ?[{_MEASURES}]|\d+ |一些|一点点?|流利的)(?=.)", "", value)


def _places(value: str) -> tuple[str, ...]:
    names = _listed(value)
    return () if any(_NO_PLACE.search(name) for name in names) else names


def _people(value: str) -> tuple[str, ...]:
    names = tuple(re.split("和|、", value))
    return names if all(_name(name) for name in names) else ()


def _kin_relation(kin: str) -> str:
    plain = _SAME_KIN.get(kin, kin)
    if kin in _MARRIED:
        return "结婚对象"
    return plain if plain in {"朋友", "同事"} else f"有{plain}"


def _type(kin: str) -> str:
    return "animal" if _KIND_OF[kin] == "pet" else "person"
