"""Word lists: what the rules of a language cannot tell. English and Chinese; everything else works without them.

They are data for `text` and `languages`, and nothing else reads them. A change of `STOPWORDS`, `STOPWORDS_CJK`, `CLITICS`,
`ELIDED`, `IRREGULAR`, `TIMES` or `TOPICS` changes the words that are stored: raise `text.TOKENIZER` with it; the others are
only asked when a search is made.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "CHANGES",
    "CHANGES_CJK",
    "CLITICS",
    "ELIDED",
    "IRREGULAR",
    "KIN",
    "LIGHT",
    "RELATED",
    "STOPWORDS",
    "STOPWORDS_CJK",
    "TIMES",
    "TOPICS",
    "WHEN",
]

STOPWORDS: Final = frozenset(
    "a about after all also am an and any are as at be been before being but by can could did do does doing done "
    "for from get had has have having he her hers him his how i if in into is it its just let like me more most "
    "much my no nor not of on or our out over own really s same she should so some such t than that the their "
    "them then there these they this those to too under up us very was we were what when where which while who "
    "whom why will with would you your".split()
)
"""Stems that mark grammar, hardly meaning."""

STOPWORDS_CJK: Final = frozenset("的了是在有和我你他她它们这那也就都很吗呢吧啊着过一个不人说要会对")
"""Chinese particles and pronouns; as parts of pairs of letters they still count."""

CLITICS: Final = frozenset("s t d m re ve ll".split())
"""What stands after an apostrophe and is no word: Anna's, don't, we'll."""

ELIDED: Final = frozenset(
    "c d j l m n s t qu jusqu lorsqu puisqu quoiqu gl un all dall dell nell sull coll agl dagl degl negl sugl quest "
    "quell sant".split()
)
"""What French, Italian and Catalan leave of a word before an apostrophe: l'avion, dell'anno, d'aigua."""

IRREGULAR: Final = {
    form: verb
    for verb, *forms in (
        group.split()
        for group in (
            "go goes went gone; buy bought; teach taught; think thought; bring brought; catch caught; "
            "fight fought; seek sought; sell sold; tell told; hold held; feel felt; keep kept; "
            "leave left; meet met; lose lost; find found; build built; send sent; spend spent; "
            "lend lent; sit sat; stand stood; understand understood; win won; hear heard; pay paid; "
            "say said; make made; lead led; feed fed; speak spoke spoken; write wrote written; "
            "drive drove driven; ride rode ridden; choose chose chosen; break broke broken; "
            "wake woke woken; wear wore worn; tear tore torn; swim swam swum; sing sang sung; "
            "drink drank drunk; begin began begun; run ran; come came; become became; see saw seen; "
            "take took taken; give gave given; eat ate eaten; fall fell fallen; know knew known; "
            "grow grew grown; throw threw thrown; fly flew flown; draw drew drawn; show shown; "
            "get got gotten; forget forgot forgotten; sleep slept; dream dreamt; learn learnt; "
            "hide hid hidden; bite bit bitten; steal stole stolen; shoot shot; hang hung; dig dug; "
            "stick stuck; strike struck; freeze froze frozen; mean meant; deal dealt; swear swore sworn; "
            "child children; man men; woman women; person people; foot feet; tooth teeth; mouse mice; "
            "wife wives"
        ).split(";")
    )
    for form in forms
}
"""English forms that no stemmer brings together, by the form."""

TIMES: Final = frozenset(
    "yesterday today tonight tomorrow last next ago week weekend month year day morning evening night since recently soon "
    "summer winter spring autumn monday tuesday wednesday thursday friday saturday sunday january february march april may "
    "june july august september october november december "
    "昨天 今天 明天 前天 后天 上周 下周 周末 星期 上个月 下个月 去年 今年 明年 早上 晚上 最近 月 年".split()
)
"""Words that tell a time."""

WHEN: Final = ("when ", "how long ", "what date", "which date", "what day", "which day", "what year", "which year")
"""How a question for a time begins, in English; Chinese ones hold 什么时候, 几点, 哪天, 哪年, 多久."""

RELATED: Final = (
    "live reside move relocate home apartment house flat city town address 住 搬 家",
    "work job employ career profession position occupation company employer promote hire 工作 上班 公司 职",
    "marry single wife husband spouse engage divorce wedding fiance girlfriend boyfriend partner 结婚 离婚 妻子 丈夫",
    "eat food meal diet dish cuisine snack 吃 饭 菜",
    "drink beverage tea coffee wine beer alcohol juice 喝 茶 咖啡 酒",
    "drive car vehicle automobile truck 开车 车",
    "study school university college degree class course learn education 学 学校 大学 课",
    "read book novel author literature 读 书 小说",
    "pet dog cat puppy kitten animal 宠物 狗 猫",
    "kid child son daughter baby 孩子 儿子 女儿",
    "parent mother father mom dad mum 父母 妈妈 爸爸",
    "sibling sister brother 姐姐 妹妹 哥哥 弟弟",
    "trip travel vacation holiday visit flight journey tour 旅行 旅游 飞",
    "movie film cinema 电影",
    "music song band concert album 音乐 歌",
    "sick ill disease illness health medicine medication doctor 病 药 医生",
    "money salary earn income wage pay 钱 工资 收入",
    "like love enjoy favourite favorite prefer hate dislike fond 喜欢 爱 讨厌",
    "exercise gym workout fitness training 运动 健身",
    "hobby pastime activity 爱好",
    "paint painting art draw artist 画",
    "friend buddy pal 朋友",
    "buy purchase shop sell 买 卖",
    "start begin 开始",
    "finish complete end 结束",
    "happy glad joy excited 高兴 开心",
    "sad upset unhappy 难过",
    "scared afraid fear 怕",
    "create make build craft 做",
    "help support assist 帮",
    "photo picture image 照片",
    "wake awake 起床 醒",
    "name call 名字 叫",
)
"""Words that a search takes for each other, to some degree; the first one names the group."""

TOPICS: Final = """
home: live reside move relocate apartment flat house cottage studio condo loft bungalow room roommate flatmate housemate
  landlord tenant rent lease mortgage neighbourhood neighborhood suburb downtown address hometown 住 搬 搬家 合租 租房 房租 房东
  公寓 单间 室友 宿舍 小区 房子 买房 房贷 新家 老家 定居 郊区 胡同 楼 邻居 落户 home household villa duplex terrace mansion
  caravan houseboat basement attic bedroom garden balcony estate village city county countryside abroad upstairs evict downsize
  sublet 居室 两居 三居 买下 城里 城市 市区 乡下 村 县城 郊外 楼上 小屋 别墅 阁楼 平房 四合 搬走 搬去 搬回 回国 家里 家住 住处
  户型 装修 卖房
work: work job career profession occupation employ employee boss manager office company firm colleague coworker promote hire
  resign notice quit fire laid layoff redundancy unemployed salary wage freelance contractor intern internship trainee
  apprentice retire pension startup business founder ceo director consultant engineer developer programmer designer nurse
  teacher doctor lawyer accountant auditor waiter waitress barista chef baker cashier clerk driver pilot plumber electrician
  carpenter mechanic farmer journalist editor analyst scientist researcher professor librarian therapist dentist pharmacist
  architect receptionist recruiter salesman firefighter soldier police contract payroll 工作 上班 职业 公司 单位 老板 经理 主管
  总监 同事 升职 升任 晋升 跳槽 辞职 辞呈 离职 裁员 失业 入职 面试 薪水 工资 年薪 加班 值班 夜班 退休 实习 兼职 创业 自由 护士
  医生 老师 教师 律师 会计 审计 程序 工程 设计 厨师 司机 编辑 记者 助理 店员 销售 客服 合同 转正 earn raise bonus hourly
  overtime commute headquarters remote desk returned nightshift seasonal apprenticeship secretary assistant administrator
  supervisor superior leader department hr union midwife paramedic surgeon veterinarian optician tailor butcher gardener cleaner
  janitor courier postman trucker sailor fisherman miner builder bricklayer painter decorator hairdresser translator interpreter
  tutor trainer coach politician judge civil servant diplomat agency bakery bank factory store warehouse workshop studio
  practice tech industry sector healthcare retail catering gig uber client sabbatical dismissed sacked joined vacancy cv
  headhunter 就职 任职 供职 月薪 上司 领导 下属 部门 岗位 职位 白领 外企 国企 公务 编制 事业 文员 前台 猎头 教书 教练 警察 军人
  消防 工人 木匠 电工 店长 开店 经营 生意 药剂 牙医 兽医 建筑 科学 学家 研究员 分析 顾问 翻译 导游 摄影师 演员 歌手 保安 快递员
  外卖员 师傅 学徒 年终 奖金 提成 涨薪 降薪 工厂 车间 总部 远程 居家 坐班 停薪 产假 复工 返岗 调岗 外派 转行 待业 求职 简历 合伙
  股东 老总 组长 秘书 行政 财务 人事 教授 讲师 班主 做生 打工 务工 送外 当了
diet: eat food meal diet dish cook cuisine vegan vegetarian pescatarian meat beef pork chicken fish seafood egg dairy milk
  cheese gluten bread sugar sweet dessert chocolate snack breakfast lunch dinner keto carb fast calorie halal kosher tofu salad
  spicy butter steak bacon omnivore 吃 饭 菜 饮食 荤 素 吃素 素食 纯素 肉 鱼 鸡蛋 牛奶 奶制 甜 糖 零食 早餐 早饭 午饭 晚饭 夜宵
  减肥 低碳 节食 断食 辣 海鲜 清真 忌口 火锅 外卖 recipe vegetable fruit salt wheat grain rice noodle pasta soup sandwich burger
  fries oat soy hummus lamb ham turkey prawn shrimp sushi curry hungry appetite diabetic organic raw cereal porridge yogurt nuts
  honey meatless plant 全素 蛋 奶 豆腐 米饭 面条 面食 水果 蔬菜 青菜 牛肉 羊肉 猪肉 鸡肉 香菜 葱 蒜 咸 油腻 清淡 口味 食堂 做饭
  下厨 自己做 主食 碳水 轻食 麦片 粥 点心 巧克 蛋糕 冰淇 吃肉 开荤 吃辣 沾
drink: drink beverage tea coffee espresso caffeine decaf wine beer whisky whiskey alcohol liquor cocktail vodka gin sober pub
  juice soda cola matcha latte teetotal booze hangover pint rehab 喝 茶 咖啡 酒 啤酒 白酒 红酒 戒酒 滴酒 奶茶 可乐 饮料 拿铁 醉
  sip cup mug brewery cider champagne rum kombucha smoothie lemonade coke pepsi abstain aa 饮酒 喝酒 醉酒 黄酒 清酒 可可 果汁
  汽水 豆浆 茶叶 绿茶 红茶 浓茶 淡茶 美式 咖啡因 杯 酗酒 不喝
smoking: smoke smoker cigarette cigar tobacco vape nicotine pipe lighter 烟 抽烟 吸烟 戒烟 香烟 一根 烟民 尼古 patch gum butt
  雪茄 电子烟 烟瘾 吸 烟斗 尼古丁 戒了
partner: marry marriage single wife husband spouse engage fiance fiancee divorce wedding bride groom girlfriend boyfriend
  partner dating relationship breakup split separate widow romance love anniversary honeymoon propose crush 结婚 离婚 订婚 婚
  婚礼 喜宴 喜酒 戒指 妻子 丈夫 老婆 老公 太太 先生 对象 女友 男友 女朋 男朋 恋爱 谈恋 分手 单身 相亲 求婚 复合 前任 未婚 已婚
  蜜月 暗恋 couple cohabit lover romantic tinder valentine vows altar dump cheated affair heartbroken alimony reconcile wedlock
  夫妻 爱人 伴侣 配偶 媳妇 新郎 新娘 领证 办酒 离异 离了 再婚 丧偶 复婚 异地 表白 失恋 交往 处对 在一 闪婚 悔婚 婚约 婚事 男方
  女方 情侣 分居 散了 吹了
children: kid child son daughter baby toddler twin pregnant pregnancy expecting birth born newborn parent parenthood maternity
  paternity adopt kindergarten nursery daycare grandchild infant 孩子 儿子 女儿 宝宝 婴儿 双胞 怀孕 怀 二胎 三胎 临盆 预产 出生
  生了 生下 产假 坐月 幼儿 幼儿园 小学 托班 入园 领养 孙子 孙女 girls boys triplets delivered delivery midwife crib stroller
  breastfeed nursing diaper teen teenager stepson stepdaughter godchild trimester scan miscarriage childless firstborn 孩 老大
  老二 老三 小孩 娃 宝贝 男孩 女孩 胎 孕 孕期 顺产 剖腹 满月 断奶 喂奶 奶粉 尿布 月嫂 生育 备孕 流产 升学 开学 入学 转园 幼师
  青春期 闺女 儿媳 女婿
parents: parent mother father mom mum dad mama papa stepmother stepfather 父母 爸妈 妈妈 母亲 妈 爸爸 父亲 爸 岳父 岳母 公公
  婆婆 mummy folks stepmum stepdad orphan 爹 娘 老爸 老妈 双亲 养父 养母 继父 继母
siblings: sibling sister brother twin stepsister stepbrother cousin 姐姐 妹妹 哥哥 弟弟 姐 妹 哥 弟 表姐 表妹 表哥 表弟 堂哥
  堂姐 兄弟 姐妹 大哥 二哥 大姐 二姐 小妹 小弟 嫂子 姐夫 妹夫 弟媳
elders: grandmother grandfather grandma grandpa granny nana aunt uncle 外婆 姥姥 奶奶 外公 姥爷 爷爷 养老 姑姑 叔叔 舅舅 阿姨
  grandparents nan gran grandad relative cousin nephew niece 祖父 祖母 姥 公公 亲戚 伯伯 伯父 姨妈 舅妈 姑妈 婶婶 侄子 侄女 外甥
death: die death dead funeral passed buried deceased lost mourn widow inherit 去世 离世 过世 病逝 死 葬礼 遗产 走了 安乐
  cremated obituary memorial grief heir 逝世 走的 丧 追悼 遗体 墓 扫墓 没了 咽气
pet: pet dog puppy cat kitten hamster rabbit bunny parrot budgie hen chicken horse pony fish aquarium goldfish guinea turtle
  tortoise snake lizard gecko terrier poodle beagle labrador retriever corgi whippet dachshund spaniel collie tabby siamese vet
  leash litter shelter animal paw rehome 宠物 狗 猫 小狗 小猫 柯基 金毛 泰迪 哈士 拉布 布偶 橘猫 仓鼠 兔子 鹦鹉 乌龟 鱼缸 金鱼
  孔雀 养了 遛狗 猫砂 收养 兽医 kitty pup hound mutt labradoodle husky bulldog pug chihuahua persian maine coon ragdoll ferret
  gerbil mouse rat duck goat sheep cow donkey bee tank cage kennel stable adopt neutered euthanised 狗狗 猫咪 边牧 萨摩 柴犬
  英短 美短 暹罗 布偶猫 犬 龙猫 鸭 鹅 羊 马 鸟 鸟笼 笼子 猫粮 狗粮 绝育 领养 送养 走丢 丢了 跑丢 下崽 生了 养着 喂
health: ill sick disease diagnose diagnosis health doctor hospital clinic surgery operation cancer diabetes asthma migraine
  headache pain knee ankle wrist shoulder broken injury injure tore ligament blood cholesterol heart cure heal recover recovery
  normal treatment therapy depression anxiety insulin scan ecg remission symptom 病 生病 医院 医生 手术 住院 出院 诊断 确诊 体检
  复查 血压 血糖 血脂 糖尿 心脏 心悸 头痛 偏头 哮喘 膝盖 韧带 骨折 受伤 腰 痛 康复 痊愈 恢复 治疗 抑郁 焦虑 化疗 unwell cough
  flu covid fever infection virus ulcer kidney liver lung stroke bypass pacemaker chemo tumour tumor anaemia anemia thyroid
  hypertension arthritis rheumatism eczema psoriasis epilepsy adhd autism bipolar burnout concussion cast crutches wheelchair
  physio physiotherapy rehab sprain fracture hernia disc dizzy checkup bloodwork sober hospitalised discharged 感冒 发烧 咳嗽
  新冠 肺炎 胃 胃病 胃炎 肝 肾 肺 癌 肿瘤 良性 恶性 甲状 痛风 湿疹 失眠 贫血 高血 低血 中风 心梗 支架 心律 早搏 关节 颈椎 腰椎
  椎间 拐杖 石膏 扭伤 拉伤 脚踝 手腕 过劳 症状 检查 指标 正常 好转 痊 病情 病假 理疗 针灸 复健 体温
medicine: medicine medication pill tablet drug dose prescription blocker antibiotic vitamin supplement insulin inhaler
  antidepressant statin painkiller ibuprofen aspirin metformin vaccine injection 药 吃药 服药 停药 片 服 胰岛 维生 打针 疫苗
  胶囊 中药 处方 二甲 meds dosage milligram mg prescribed pharmacy chemist ointment contraceptive 药片 药物 用药 吃着 每日 一片
  两片 剂量 降压 降糖 止痛 抗生 消炎 抗抑 医嘱 停了
allergy: allergy allergic intolerant rash itch hive epipen pollen peanut nut lactose penicillin wool cat antihistamine reaction
  sneeze hay 过敏 花粉 皮试 起疹 疹子 青霉 阿莫 不耐 乳糖 脱敏 发痒 荨麻 almonds shellfish gluten dairy dust mite pet dander bee
  sting swell anaphylaxis tolerate outgrown 虾 蟹 花生 坚果 尘螨 猫毛 芒果 致敏 抗敏 喷嚏 鼻炎 起疙 痒 能吃
eyes: glasses lens contact eyesight vision eye laser shortsighted myopia hearing deaf tooth braces 眼镜 近视 隐形 眼 激光 视力
  度数 牙 牙套 spectacles frames lenses optician cataract glaucoma orthodontist wires denture implant 配镜 框架 镜片 矫正 牙齿
  正畸 假牙 拔牙 种牙 助听 听力 散光 白内
sleep: sleep wake bed insomnia nap alarm snore night 睡 睡觉 起床 早起 晚起 熬夜 失眠 懒觉 午睡 闹钟 早睡 asleep awake bedtime
  oclock clock hours dawn 起 睡到 入睡 凌晨 半夜 十点 六点 七点 作息 打鼾 褪黑 通宵
sport: run runner jog marathon train gym workout fitness exercise swim pool yoga pilates cycle tennis football soccer basketball
  volleyball badminton climb boulder box karate judo dance ballet ski surf row hike golf cricket rugby hockey skate ride lift
  league kilometre mile crossfit trainer 运动 健身 跑步 跑 马拉 训练 游泳 泳池 瑜伽 骑行 网球 足球 篮球 羽毛 乒乓 排球 爬山 登山
  攀岩 滑雪 拳击 跳舞 舞蹈 芭蕾 舞 柔道 健身房 晨跑 夜跑 球 私教 球队 sprint triathlon ironman bench press weights treadmill
  rower coach defender goalkeeper striker fencing archery skateboard snowboard surfboard kayak canoe sail dive scuba paddle
  squash padel bowling darts snooker cheer supporter fan everton liverpool arsenal chelsea stadium tournament championship medal
  belt tae kwon aikido zumba spinning gymnastics handball netball softball baseball trail 球迷 打球 赛 比赛 铁三 长跑 短跑 跳绳
  举铁 撸铁 力量 瘦身 太极 武术 跆拳 击剑 射箭 滑板 冲浪 潜水 皮划 保龄 台球 棒球 高尔 徒步 登顶 散步 步数 体操 排练 芭蕾舞 街舞
  广场 队员 教练 支持 国安 申花 恒大 主队 球衣 奖牌 腰带 段位 热身
travel: travel trip holiday vacation flight fly plane airport visit tour cruise journey itinerary book hotel hostel visa
  passport abroad ticket cancel postpone backpack camp beach honeymoon weekend 旅行 旅游 出游 飞 飞机 航班 机票 签证 护照 出国
  酒店 度假 行程 自驾 露营 赏樱 作罢 游 出差 高空 高铁 民宿 tourist sightseeing airline airfare airbnb resort safari skiing
  roadtrip departure overseas destination suitcase luggage 游玩 之行 出行 启程 动身 返程 出发 景点 海岛 三亚 云南 西藏 新疆 日本
  泰国 欧洲 高原 自由行 跟团 行李 改签 退票 跳伞 蹦极 年假 假期 黄金周
transport: drive car vehicle automobile suv van truck saab volvo toyota honda ford tesla bmw audi renault fiat bike bicycle
  cargo scooter motorbike motorcycle moped bus tram train metro subway commute licence license lease electric parking taxi walk
  开车 车 汽车 捷达 大众 丰田 本田 特斯 比亚 奥迪 宝马 骑车 单车 自行 电动 电瓶 摩托 公交 地铁 通勤 驾照 打车 步行 班车 停车
  车位 minivan hatchback hybrid diesel petrol charger vespa ebike skateboard carpool garage plates rail uber lyft 开着 驾驶 买车
  卖车 新能 油车 燃油 充电 轿车 面包 越野 电驴 骑 滴滴 拼车 车牌 摇号 上牌 动车 火车 坐车 代步 路上
language: language speak fluent english spanish french german italian portuguese chinese mandarin japanese korean russian arabic
  dutch swedish estonian polish turkish hindi latin vocabulary grammar duolingo exam a1 a2 b1 b2 c1 beginner translate n1 n2 n3
  语言 外语 英语 英文 中文 日语 法语 德语 韩语 西语 西班 俄语 粤语 普通 口语 托福 雅思 四级 六级 考试 学会 背单 bilingual native
  accent teacher tutor interpreter greek hebrew thai vietnamese czech hungarian finnish norwegian danish welsh irish catalan
  sign course certificate toefl ielts jlpt hsk dele conversational fluency 学日 学法 学德 学韩 学英 泰语 越南 阿拉 意大 葡萄
  上海话 方言 手语 翻译 流利 听写 语法 日本语 外教 考过 证书
study: study student school university college degree major minor course lesson thesis dissertation graduate exam bachelor
  master phd doctorate semester professor law scholarship tuition dropout enrol homework diploma kindergarten primary secondary
  grade certificate bootcamp freshman sophomore distinction 学 学校 大学 专业 大一 大二 大三 大四 研究生 读研 考研 读博 博士
  硕士 本科 论文 答辩 毕业 退学 休学 转学 奖学 课程 在读 中学 高中 初中 小学 幼儿 上学 法学 心理 录取 classes pupil
  undergraduate postgraduate dean campus faculty economics biology chemistry physics maths mathematics history philosophy
  engineering computing architecture nursing viva defended gap transferred admitted admission expelled apprenticeship academy
  institute lecture fees 学生 学业 学位 学费 学院 学期 学科 读书 念书 攻读 就读 升学 保研 上岸 落榜 中专 大专 高考 中考 毕了
  延毕 退了 转系 转到 经济 金融 数学 物理 化学 生物 历史 哲学 文学 计算 工程 医学 建筑系 中文系 导师 实验 师范 出国留 留学 海归
  辍学 复读 高三 初三 年级 班 班级 老师
money: money debt loan credit owe bank account saving budget invest stock crypto bitcoin pay income tax afford broke insurance
  mortgage euro dollar pound fund debit finance bankrupt return 钱 欠 债务 债 贷款 还清 信用 存款 储蓄 理财 股票 基金 比特 收入
  预算 报税 保险 银行 账户 花呗 房贷 还款 公积 投资 开支 financial pension overdraft instalment repay repaid rich poor lottery
  inheritance landlord deposit isa etf shares bonds property revenue grant scholarship benefits refund invoice bookkeeping fee
  price cost spend expensive cheap 欠款 欠债 无债 借 借款 借钱 还清了 房贷车 车贷 余额 存 存钱 攒 攒钱 月光 退税 账 账单 记账 亏
  亏损 赚 盈利 彩票 中奖 定投 黄金 债券 股市 清仓 套牢 破产 补贴 工资卡 零花 开销 消费 省钱 养老金
devices: phone smartphone iphone android pixel samsung galaxy laptop computer macbook thinkpad windows linux ubuntu mac tablet
  ipad kindle tv console playstation xbox nintendo headphone camera printer device 手机 苹果 安卓 小米 华为 三星 电脑 笔记 平板
  相机 手表 耳机 电视 游戏机 主机 打印 系统 鸿蒙 chromebook desktop pc monitor keyboard mouse ereader earbuds speaker smartwatch
  garmin fitbit oneplus huawei xiaomi nokia motorola sony dell lenovo hp asus ios macos steam deck ps5 upgrade replaced drone
  换机 新机 旧机 屏幕 键盘 鼠标 显示 安卓机 苹果机 荣耀 OPPO 联想 戴尔 一体 主板 显卡 音箱 手环 手柄 电纸 无人机 机型 内存
software: software app application code programming python java javascript typescript kotlin rust golang backend frontend
  database editor vim vscode browser chrome firefox password lastpass bitwarden todoist notion obsidian slack email spreadsheet
  excel notebook task calendar cloud server service migrate framework tool 软件 应用 代码 编程 程序 后端 前端 数据 浏览 密码
  清单 任务 备忘 日历 邮箱 表格 笔记 本子 框架 云盘 迁移 微信 钉钉 飞书 ruby php c++ swift scala haskell elixir sql postgres
  mysql mongodb react vue angular django rails flask docker kubernetes aws azure github gitlab jira trello evernote onenote
  dropbox onedrive gmail outlook whatsapp telegram signal zoom figma photoshop docs vpn plugin platform hosting website script
  developer opensource 写程 开源 网站 插件 浏览器 谷歌 百度 印象 语雀 石墨 企业微 腾讯会 网盘 办公 微软 排版 剪辑 脚本 语言写
  重构 技术栈 用户名 账号 管理器 输入法 弃用 改用 换用 换成 改成
contact: name nickname surname email phone number mobile address handle username married mr mrs pronoun timezone 名字 姓名 昵称
  叫 改名 称呼 小名 网名 邮箱 电话 号码 手机号 微信号 地址 时区 renamed maiden reached contact telephone cell landline postcode
  zip skype twitter instagram linkedin alias pen title 名 姓 外号 称 全名 英文名 笔名 联系 联系方式 座机 新号 换号 邮编 住址 QQ
  抖音 账号 真名 时差
answers: answer reply response format bullet list prose paragraph short brief concise detailed emoji formal informal tone
  language markdown table summary step explain explanation 回答 回复 答案 分条 列出 段落 连贯 简短 简洁 详细 语气 格式 表情 中文
  英文 要点 列表 解释 written verbose wordy terse sentence essay code examples jargon plain slang humour jokes metric celsius
  units imperial audio voice spoken 用语 措辞 口吻 啰嗦 详尽 篇幅 举例 例子 代码 表述 通俗 幽默 正式 口语化 文言 繁体 简体 语音
  朗读 列点
music: music song band concert album sing singer choir guitar piano violin cello drum bass kit flute saxophone trumpet
  instrument orchestra jazz rock pop metal rap classical vinyl playlist spotify gig festival lesson karaoke 音乐 歌 唱歌 合唱
  乐队 吉他 钢琴 提琴 小提 大提 鼓 架子 古筝 二胡 乐器 演唱 专辑 爵士 摇滚 古典 琴 练琴 tunes listen radiohead vocals soprano
  tenor bassist drummer pianist guitarist violinist viola harp organ clarinet oboe trombone ukulele banjo accordion synth dj
  techno electronic folk blues reggae kpop symphony opera conservatory quartet rehearsal recital tuner 听歌 听 歌手 歌曲 歌单
  曲子 乐团 交响 民谣 说唱 嘻哈 电子 古琴 琵琶 笛子 萨克 长笛 小号 单簧 口琴 架子鼓 指弹 练歌 声乐 戏曲 京剧 昆曲 周杰 五月天
  音乐节 演唱会 贝斯 主唱 组乐
reading: read book novel author writer literature poetry poem fiction library audiobook kindle newspaper paper magazine news
  podcast article bookshop biography subscription 读 看书 书 小说 作家 作者 诗 文学 图书 报纸 报 新闻 杂志 播客 听书 订阅 阅读
  thriller fantasy scifi manga comic essays editor publisher bookclub chapter guardian times subscribe rss newsletter radio
  listens 读书 看报 小说家 散文 漫画 科幻 推理 武侠 网文 言情 名著 传记 出版 书店 书架 电子书 新闻联 公众号 电台 广播 收音 刊
  作品 写书 诗歌 诗人
screen: movie film cinema series show tv netflix anime watch documentary horror comedy thriller streaming actor director episode
  电影 影片 恐怖片 片 剧 电视 追剧 动漫 综艺 纪录 喜剧 科幻 导演 演员 院线 theatre theater musical sitcom drama disney hbo
  youtube channel tiktok reels marvel wars trek romcom subtitles binge 看片 看剧 电视剧 美剧 韩剧 日剧 国产剧 影院 话剧 舞台
  音乐剧 刷剧 短视频 抖音 B站 油管 直播 主播 漫威 爱情片 动作片 动画 影迷 连续剧
games: game gamer chess poker board puzzle minecraft video esports console league 游戏 电竞 象棋 围棋 麻将 桌游 扑克 打游 王者
  原神 sudoku crossword rummy monopoly catan dungeons dragons warcraft fortnite zelda mario pokemon steam backgammon bingo 玩游
  开黑 网游 手游 端游 主机游 塞尔达 宝可 魔兽 英雄联 吃鸡 段位 五子 跳棋 桥牌 斗地主 剧本杀 密室 拼图 数独 卡牌 戒游
craft: paint draw sketch art pottery ceramic knit sew crochet photography photo craft woodwork garden plant allotment bake cook
  sculpture blog write calligraphy hobby model collect stamp 画 画画 绘画 素描 陶艺 编织 毛衣 摄影 拍照 手工 木工 园艺 种花 种菜
  养花 烘焙 书法 写作 博客 爱好 收藏 集邮 painter watercolour watercolor canvas illustration quilting embroidery weaving
  carpentry lego telescope astronomy astronomer birdwatching fishing hunting mushrooms brewing hobbyist pastime polaroid
  darkroom vlog journal diary origami jewellery leather candles soap beekeeping 水彩 油画 国画 漫画 插画 钩针 刺绣 缝纫 十字绣
  拼布 皮具 木雕 模型 乐高 天文 观星 观鸟 钓鱼 打猎 酿酒 种植 阳台 多肉 盆栽 花园 菜园 摄像 视频 日记 手账 折纸 香薰 首饰 收集
  黑胶 邮票 胶片 烤 面包机
friends: friend friendship buddy pal mate bestie speaking quarrel argue fell reconcile neighbour neighbor 朋友 好友 闺蜜 哥们
  死党 绝交 和好 吵架 翻脸 友情 邻居 同学 发小 acquaintance childhood flatmate companion fallout ghosted estranged trust 伙伴
  老友 挚友 死对头 闹翻 断了 来往 联系 不来 同伴 知己 拉黑 玩伴 兄弟 酒友 同窗 交情
religion: religion religious church mass catholic protestant christian muslim islam mosque jewish synagogue buddhist buddhism
  hindu temple pray prayer faith believe god atheist agnostic bible quran baptise baptized convert meditation ramadan lent
  sunday 宗教 信 教堂 礼拜 基督 天主 佛教 信佛 寺 庙 清真 祷告 冥想 打坐 无神 受洗 皈依 信仰 practising practicing lapsed
  baptist methodist anglican lutheran orthodox pope priest pastor imam rabbi monk nun monastery kosher halal hijab sikh taoist
  jehovah mormon quaker confession communion spiritual secular churchgoer shabbat diwali fasting 教徒 信徒 信教 基督徒 天主教 佛
  念经 拜佛 吃斋 上香 穆斯林 清真寺 道教 道观 出家 还俗 退教 圣经 祈祷 礼佛 庙会 伊斯兰
politics: vote politics party election labour labor conservative green liberal democrat republican socialist union campaign
  member activist protest 投票 政治 选举 党 入党 工会 民主 候选 voter ballot parliament senator mp councillor mayor tory leftist
  centrist brexit referendum demonstrates canvass 政党 党员 党派 左派 右派 议员 抗议 罢工 请愿 入团 退党 选民
beliefs: believe belief think opinion convinced sceptical skeptical homeopathy astrology horoscope superstition placebo
  conspiracy climate support oppose 相信 认为 觉得 中医 星座 迷信 观点 怀疑 支持 反对 风水 算命 doubts trusts rejects vaccine
  homeopathic tarot zodiac alternative medicine god afterlife ghosts aliens karma feminism nuclear ethics considers 信 坚信 主张
  观念 看法 以为 赞成 西医 保健品 鬼 神 外星 转基因 命运 塔罗 占星 偏方 气功
fears: fear afraid scared terrified phobia nervous anxious anxiety panic height spider needle flying dark nightmare brave 怕
  害怕 恐惧 恐高 紧张 恐慌 蜘蛛 打雷 胆小 噩梦 怕黑 晕 dread claustrophobia arachnophobia scary dogs water crowds public
  speaking overcame conquered hypnosis 怕狗 怕水 怕高 怕生 社恐 幽闭 恐水 克服 不怕 害怕了 胆 吓 敢 心理阴影 发抖
likes: love enjoy prefer favourite favorite hate dislike adore fan fond bear bored interested 喜欢 爱 最爱 讨厌 偏爱 热爱 享受
  受不了 腻 不爱 兴趣 迷上 粉丝 craze obsessed passion detests loathes bearable 最喜 喜爱 酷爱 钟爱 痴迷 着迷 入迷 上瘾 嫌弃
  反感 厌恶 不喜 喜好 偏好 口味 粉 脱粉 追星 偶像 最常
body: weigh weight kilo pound tall shoe hair beard tattoo pierced dye blonde bald shave haircut hairdresser barber slim 体重
  公斤 斤 身高 胖 瘦 头发 发型 染 剪发 理发 胡子 纹身 纹 刺青 耳洞 尺码 发色 kg kilogram lbs bmi heavier lighter slimmer diet
  thin muscles waist inches metres ponytail bun curly fringe redhead brunette grey moustache makeup nails earring manicure botox
  重 斤重 瘦了 胖了 减重 减掉 增肥 腰围 长发 短发 卷发 直发 刘海 光头 留 白发 胡须 剃 美甲 耳钉 单眼 双眼 整容 厘米 米 体脂 身材
clothes: wear clothes dress suit shirt jeans shoes sneaker wool sweater jacket coat fashion style heels 穿 衣服 裙子 西装 牛仔
  鞋 毛衣 外套 羽绒 高跟 风格 球鞋 skirt trousers pants shorts hoodie tie blouse boots sandals trainers uniform vintage
  secondhand leather merino cashmere cotton hat cap scarf jewelry handbag brand outfit wardrobe barefoot 着装 打扮 裤子 短裤
  长裤 衬衫 领带 T恤 连衣 旗袍 汉服 帽子 围巾 皮鞋 靴子 运动鞋 包包 首饰 品牌 正装 便装 羊毛 棉 二手衣
age: age old birthday thirty forty fifty born 岁 年龄 生日 周岁 满 今年 出生 years teenager twenties sixties adult celebrate
  decade 岁数 年纪 虚岁 十八 二十 三十 四十 五十 成年 过生 本命 属
schedule: schedule meeting appointment weekly monday tuesday wednesday thursday friday saturday sunday weekend daily morning
  evening busy stall market shift deadline calendar reschedule 例会 会议 开会 周一 周二 周三 周四 周五 周六 周日 周末 每天 每周
  改到 时间 截止 预约 日程 赶集 摆摊 standup sync noon afternoon pm hours fortnight monthly postponed brought forward delayed
  slot diary opens closes lunch 周会 晨会 早会 站会 课表 上课 下课 排班 轮班 早班 晚班 下午 上午 晚上 几点 两点 三点 四点 提前
  延后 推后 延期 顺延 隔周 双周 每月 每年 单休 双休 星期 礼拜 上门 营业 开门 关门 闭馆 档期
volunteer: volunteer charity shelter donate coordinate community mentor ngo foundation 志愿 义工 公益 捐 救助 支教 社区
  nonprofit soup kitchen foodbank scouts firebrigade blood donor sponsor fundraiser board trustee helper 志愿者 义务 慈善 捐款
  捐赠 献血 资助 帮扶 支援 义卖 公益组 理事 养老院 义演
services: subscribe subscription membership member gym box delivery deliver netflix spotify newspaper cleaner nanny babysitter
  hairdresser dentist lawyer tax accountant contract cancel insurance supplier 订阅 会员 套餐 快递 外卖 保姆 钟点 续费 退订 取消
  年卡 办卡 宽带 unsubscribed renewed streaming prime amazon gas electricity broadband internet sim carrier vodafone telekom
  broker landscaper mechanic plumber physiotherapist gp vet caretaker housekeeper au pair grocery veg meal kit stylist
  beautician tutor notary agent adviser advisor 报了 会籍 月卡 季卡 到期 不续 停掉 退卡 视频会 电信 移动 联通 流量 家政 阿姨
  月嫂 管家 理财师 私教课 中介 代理 家教 托管 净菜 送货 牛奶 报纸 钟点工
plans: plans intend wants hope dream wish goal aim target saving apply application decide someday resolution 想 打算 计划 准备
  希望 目标 梦想 愿望 决定 推迟 取消 申请 报名 intention ambitions mind scrapped abandoned shelved finally completed achieved
  打消 放弃 念头 志向 理想 立志 想当 想学 想买 想去 决心 计划书 取消了 搁置 告吹 泡汤 改主 改变 主意 实现 完成 达成 如愿 终于
  拿到 准备考 报考 拟 心愿
origin: from born native nationality citizen citizenship passport grew hometown country immigrant emigrate visa 来自 籍贯 国籍
  老家 出生 移民 绿卡 户口 长大 入籍 originally birthplace raised naturalised naturalized refugee asylum ancestry roots descent
  expat 出生地 祖籍 故乡 家乡 本地 外地 籍 华裔 归化 居留 永居 侨 生于
law: court lawyer lawsuit sue police arrest trial judge fine custody guardian appeal 法院 官司 律师 起诉 判 罚款 抚养 监护
  solicitor attorney jail prison sentenced parole probation verdict dispute settlement inheritance guardianship bankruptcy 打官
  诉讼 和解 败诉 胜诉 坐牢 服刑 出狱 仲裁 赔偿 监护权 抚养权 公证
military: army navy military soldier veteran serve deployed enlisted recruit 军队 参军 当兵 退伍 部队 服役 discharged reserve
  reservist conscription marine airforce draft regiment 入伍 复员 转业 征兵 预备 兵 军 军官 军校
household: fridge washing machine dishwasher oven sofa couch bed mattress table chair kitchen bathroom heating boiler solar
  renovate paint wallpaper furniture curtain cleaner vacuum robot laundry iron chores recycle neighbour noise 冰箱 洗衣 洗碗
  烤箱 沙发 床 床垫 桌 椅 厨房 卫生 浴室 暖气 空调 家具 窗帘 扫地 拖地 家务 打扫 垃圾
weather: weather climate cold hot heat winter summer rain snow sun sunny humid 天气 冬天 夏天 热 冷 雨 雪 太阳 潮 干燥 气候
"""
"""Words that speak of a topic, behind its name. A broad net, in which a new fact finds the memories it may concern: "called off
the wedding" and "engaged to Marek" share no word and, without a model, no direction. Of a longer Chinese word the last two
letters count."""

KIN: Final = frozenset(
    "wife husband spouse fiance girlfriend boyfriend partner dog cat puppy kitten pet kid child son daughter baby parent "
    "mother father mom dad mum sibling sister brother aunt uncle cousin niece nephew grandmother grandfather friend neighbour "
    "boss colleague roommate 妻子 丈夫 女友 男友 狗 猫 孩子 儿子 女儿 父母 妈妈 爸爸 姐姐 妹妹 哥哥 弟弟 朋友 邻居".split()
)
"""Whom a statement may speak of besides the one who makes it."""

LIGHT: Final = frozenset("take use go get look play watch have make keep put give come want need see".split())
"""Verbs that say little of what a statement is about."""

CHANGES: Final = frozenset(
    "now nowadays lately anymore longer instead new another changed moved switched replaced swapped quit stopped left dropped "
    "sold cancelled canceled deleted became become started began turned raised promoted transferred relocated migrated updated "
    "fixed finished ended traded renamed adopted climbed picked dyed actually finally already since recently rescheduled "
    "rebooked postponed hired joined retired married divorced learned".split()
)
"""English words of statements that something is no longer as it was, as they are written."""

CHANGES_CJK: Final = ("现在", "不再", "改", "换", "搬", "已经", "了", "又")
"""The same in Chinese."""
