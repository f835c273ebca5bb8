//! Reading a cron expression.

use super::{
    Cron, CronError, CronFault, CronField,
    days::{MonthDays, WeekDays},
};
use crate::nearest;

/// What may stand for a whole expression.
const NICKNAMES: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// Where something is wrong, counted in characters from 0, and what.
type Fault = (usize, CronFault);

/// Reads a text.
pub(super) fn parse(text: &str) -> Result<Cron, CronError> {
    let error = |field, character, fault| CronError { text: text.to_owned(), field, character, fault };
    let mut words = words(text);
    let Some((at, first)) = words.first() else { return Err(error(None, None, CronFault::Empty)) };
    if first.starts_with(&['@']) {
        let meaning = nickname(first).map_err(|fault| error(None, Some(at + 1), fault))?;
        if words.len() == 1 {
            words = self::words(meaning);
        }
    }
    if !(5..=6).contains(&words.len()) {
        return Err(error(None, None, CronFault::Fields { found: words.len() }));
    }
    let mut cron = Cron {
        text: words.iter().map(|(_, word)| upper(word)).collect::<Vec<_>>().join(" "),
        seconds: 1,
        minutes: 0,
        hours: 0,
        months: 0,
        month_days: MonthDays::default(),
        week_days: WeekDays::default(),
        repeats: false,
        hourly: false,
    };
    for (field, (start, word)) in CronField::ALL[6 - words.len()..].iter().zip(&words) {
        let mut reader = Reader { field: *field, word, start: *start, at: 0 };
        reader.read_into(&mut cron).map_err(|(at, fault)| error(Some(*field), Some(at + 1), fault))?;
    }
    if !cron.ever_fires() {
        return Err(error(None, None, CronFault::Never));
    }
    Ok(cron)
}

/// The words of a text, each with the place of its first character.
fn words(text: &str) -> Vec<(usize, Vec<char>)> {
    let mut words: Vec<(usize, Vec<char>)> = Vec::new();
    let mut inside = false;
    for (at, c) in text.chars().enumerate() {
        match (c.is_whitespace(), inside) {
            (true, _) => inside = false,
            (false, false) => {
                words.push((at, vec![c]));
                inside = true;
            }
            (false, true) => words.last_mut().expect("a word has begun").1.push(c),
        }
    }
    words
}

fn upper(word: &[char]) -> String {
    word.iter().collect::<String>().to_uppercase()
}

fn nickname(word: &[char]) -> Result<&'static str, CronFault> {
    let word = word.iter().collect::<String>().to_lowercase();
    if let Some((_, meaning)) = NICKNAMES.iter().find(|(name, _)| *name == word) {
        return Ok(meaning);
    }
    Err(match word.as_str() {
        "@reboot" => CronFault::NotATime {
            what: "`@reboot` is not a time: start a run when the program starts instead",
        },
        "@every" => CronFault::NotATime { what: "`@every` is not cron: use a schedule with `every` instead" },
        _ => {
            CronFault::Nickname { hint: nearest(&word, NICKNAMES.iter().map(|(name, _)| *name)), found: word }
        }
    })
}

/// One field, and how far it was read.
struct Reader<'a> {
    field: CronField,
    word: &'a [char],
    start: usize,
    at: usize,
}

/// What stands between two commas.
enum Item {
    /// From, to and step, as bits.
    Set(u64),
    /// `15W`
    Nearest(u32),
    /// `L`, `L-3`
    FromLast(u32),
    /// `LW`
    LastWork,
    /// `FRI#2`
    Nth(u32, u32),
    /// `FRIL`
    LastWeekday(u32),
}

impl Reader<'_> {
    fn read_into(&mut self, cron: &mut Cron) -> Result<(), Fault> {
        let open = matches!(self.word, ['*', ..] | ['?']);
        let mut set = 0_u64;
        loop {
            match self.item()? {
                Item::Set(bits) => set |= bits,
                Item::Nearest(day) => cron.month_days.nearest |= 1 << day,
                Item::FromLast(back) => cron.month_days.from_last |= 1 << back,
                Item::LastWork => cron.month_days.last_work = true,
                Item::Nth(weekday, n) => cron.week_days.nth[n as usize - 1] |= 1 << weekday,
                Item::LastWeekday(weekday) => cron.week_days.last |= 1 << weekday,
            }
            match self.peek() {
                None => break,
                Some(',') => self.at += 1,
                Some(_) => return Err(self.odd()),
            }
        }
        match self.field {
            CronField::Second => cron.seconds = set,
            CronField::Minute => cron.minutes = set,
            CronField::Hour => cron.hours = set as u32,
            CronField::Month => cron.months = set as u16,
            CronField::DayOfMonth => {
                cron.month_days.plain = set as u32;
                cron.month_days.open = open;
            }
            CronField::DayOfWeek => {
                cron.week_days.plain = set as u8;
                cron.week_days.open = open;
            }
        }
        if matches!(self.field, CronField::Second | CronField::Minute | CronField::Hour) {
            cron.repeats |= open;
            cron.hourly |= open && self.field == CronField::Hour;
        }
        Ok(())
    }

    fn item(&mut self) -> Result<Item, Fault> {
        let begun = self.at;
        match self.peek() {
            Some('*') => {
                self.at += 1;
                let (low, _) = self.field.bounds();
                self.stepped(low, low + self.field.size() - 1)
            }
            Some('?') => self.question(),
            Some('l' | 'L') if self.field == CronField::DayOfMonth => self.last_day(),
            Some(c) if c.is_ascii_digit() || c.is_alphabetic() => {
                let from = self.value()?;
                match self.peek() {
                    Some('-') => {
                        self.at += 1;
                        let to = self.value()?;
                        self.range(begun, from, to)
                    }
                    Some('/') => {
                        let (low, _) = self.field.bounds();
                        self.stepped(self.wrapped(from), low + self.field.size() - 1)
                    }
                    Some('w' | 'W') => self.nearest(from),
                    Some('l' | 'L') => self.last_weekday(from),
                    Some('#') => self.nth(from),
                    _ => Ok(Item::Set(1 << self.wrapped(from))),
                }
            }
            None | Some(',' | '-' | '/' | '#') => {
                Err((self.place(), CronFault::Missing { next: self.peek() }))
            }
            Some(_) => Err(self.odd()),
        }
    }

    /// `?` is `*`, in the two fields of which usually one is left open.
    fn question(&mut self) -> Result<Item, Fault> {
        let fields = &[CronField::DayOfMonth, CronField::DayOfWeek];
        if !fields.contains(&self.field) {
            return Err((self.place(), CronFault::Elsewhere { sign: '?', fields }));
        }
        if self.word.len() > 1 {
            let what = "`?` stands alone: it means that the other field of days decides";
            return Err((self.place(), CronFault::Together { what }));
        }
        self.at += 1;
        let (low, _) = self.field.bounds();
        Ok(Item::Set(span(low, low + self.field.size() - 1, 1)))
    }

    fn last_day(&mut self) -> Result<Item, Fault> {
        self.at += 1;
        match self.peek() {
            Some('w' | 'W') => {
                self.at += 1;
                Ok(Item::LastWork)
            }
            Some('-') => {
                self.at += 1;
                let at = self.place();
                let digits = self.digits()?;
                match digits.parse() {
                    Ok(back @ 0..=30) => Ok(Item::FromLast(back)),
                    _ => Err((at, CronFault::Number { found: digits, low: 0, high: 30 })),
                }
            }
            _ => Ok(Item::FromLast(0)),
        }
    }

    fn nearest(&mut self, day: u32) -> Result<Item, Fault> {
        self.only('W', &[CronField::DayOfMonth])?;
        self.at += 1;
        Ok(Item::Nearest(day))
    }

    fn last_weekday(&mut self, weekday: u32) -> Result<Item, Fault> {
        self.only('L', &[CronField::DayOfMonth, CronField::DayOfWeek])?;
        if self.field == CronField::DayOfMonth {
            let what = "`L` stands before its number: `L-3` is the third day before the last";
            return Err((self.place(), CronFault::Together { what }));
        }
        self.at += 1;
        Ok(Item::LastWeekday(weekday % 7))
    }

    fn nth(&mut self, weekday: u32) -> Result<Item, Fault> {
        self.only('#', &[CronField::DayOfWeek])?;
        self.at += 1;
        let at = self.place();
        let digits = self.digits()?;
        match digits.parse() {
            Ok(n @ 1..=5) => Ok(Item::Nth(weekday % 7, n)),
            _ => Err((at, CronFault::Number { found: digits, low: 1, high: 5 })),
        }
    }

    fn only(&self, sign: char, fields: &'static [CronField]) -> Result<(), Fault> {
        if fields.contains(&self.field) {
            return Ok(());
        }
        Err((self.place(), CronFault::Elsewhere { sign, fields }))
    }

    fn range(&mut self, begun: usize, from: u32, to: u32) -> Result<Item, Fault> {
        // Sunday is the first day of a range that begins with it, and the last of one that ends with it.
        let (from, to) = match (self.field, from, to) {
            (CronField::DayOfWeek, 7, ..7) => (0, to),
            (CronField::DayOfWeek, 1.., 0) => (from, 7),
            _ => (from, to),
        };
        if from > to {
            let found: String = self.word[begun..self.at].iter().collect();
            let (low, _) = self.field.bounds();
            let last = low + self.field.size() - 1;
            let instead = format!("{},{}", self.shown(from, last), self.shown(low, to));
            return Err((self.start + begun, CronFault::Backwards { found, instead }));
        }
        match self.peek() {
            Some('w' | 'W' | 'l' | 'L' | '#') => {
                let what = "`L`, `W` and `#` follow a single day, not a range";
                Err((self.place(), CronFault::Together { what }))
            }
            _ => self.stepped(from, to),
        }
    }

    /// A range as somebody would write it, with names where the field has them.
    fn shown(&self, from: u32, to: u32) -> String {
        let (low, _) = self.field.bounds();
        let name = |value: u32| {
            let name = self.field.names().get((value - low) as usize);
            name.map_or_else(|| value.to_string(), |name| (*name).to_owned())
        };
        if from == to { name(from) } else { format!("{}-{}", name(from), name(to)) }
    }

    /// A range, with the step that may follow it.
    fn stepped(&mut self, from: u32, to: u32) -> Result<Item, Fault> {
        let mut step = 1;
        if self.peek() == Some('/') {
            self.at += 1;
            let at = self.place();
            let digits = self.digits()?;
            let size = self.field.size();
            step = match digits.parse() {
                Ok(step) if (1..size).contains(&step) => step,
                _ => return Err((at, CronFault::Step { found: digits, most: size - 1, size })),
            };
        }
        let bits = span(from, to, step);
        // What was counted up to 7 is folded back to Sunday.
        Ok(Item::Set(if self.field == CronField::DayOfWeek { bits & 0x7f | bits >> 7 & 1 } else { bits }))
    }

    /// A number or a name.
    fn value(&mut self) -> Result<u32, Fault> {
        let at = self.place();
        if self.peek().is_some_and(|c| c.is_ascii_digit()) {
            let (low, high) = self.field.bounds();
            let digits = self.digits()?;
            return match digits.parse() {
                Ok(number) if (low..=high).contains(&number) => Ok(number),
                _ => Err((at, CronFault::Number { found: digits, low, high })),
            };
        }
        let mut letters = self.take(char::is_alphabetic);
        if letters.is_empty() {
            let fault = match self.peek() {
                Some(c) if !matches!(c, ',' | '-' | '/' | '#') => return Err(self.odd()),
                next => CronFault::Missing { next },
            };
            return Err((at, fault));
        }
        // The last letter of `FRIL` is not part of the name.
        if self.field == CronField::DayOfWeek && letters.chars().count() == 4 && letters.ends_with(['l', 'L'])
        {
            letters.pop();
            self.at -= 1;
        }
        let (low, _) = self.field.bounds();
        let names = self.field.names();
        match (0..).zip(names).find(|(_, name)| name.eq_ignore_ascii_case(&letters)) {
            Some((place, _)) => Ok(low + place),
            None => Err((at, self.misspelt(letters))),
        }
    }

    fn misspelt(&self, found: String) -> CronFault {
        let names = self.field.names();
        let sign = found.chars().next().map(|c| c.to_ascii_uppercase());
        if names.is_empty() || found.chars().count() == 1 {
            return match (sign, self.field) {
                (Some('L'), CronField::DayOfWeek) => {
                    CronFault::Together { what: "`L` says the last of which day: write `FRIL` or `5L`" }
                }
                (Some('W'), CronField::DayOfMonth) => {
                    CronFault::Together { what: "`W` says nearest to which day: write `15W` or `LW`" }
                }
                (Some('W'), _) => CronFault::Elsewhere { sign: 'W', fields: &[CronField::DayOfMonth] },
                (Some('L'), _) => {
                    CronFault::Elsewhere { sign: 'L', fields: &[CronField::DayOfMonth, CronField::DayOfWeek] }
                }
                _ => CronFault::Character {
                    found: found.chars().next().unwrap_or(' '),
                    allowed: self.allowed(),
                },
            };
        }
        // Whole names begin like the short ones.
        let whole = found.chars().count() > 3;
        let like =
            |name: &&&str| found.is_char_boundary(3) && whole && name.eq_ignore_ascii_case(&found[..3]);
        let hint = names.iter().find(like).copied().or_else(|| nearest(&found, names.iter().copied()));
        CronFault::Name { found, hint: hint.map(str::to_owned), allowed: self.allowed() }
    }

    fn digits(&mut self) -> Result<String, Fault> {
        let digits = self.take(|c| c.is_ascii_digit());
        if !digits.is_empty() {
            return Ok(digits);
        }
        match self.peek() {
            Some(found) if !matches!(found, ',' | '-' | '/' | '#') => {
                let allowed = "a number".to_owned();
                Err((self.place(), CronFault::Character { found, allowed }))
            }
            next => Err((self.place(), CronFault::Missing { next })),
        }
    }

    fn take(&mut self, fits: impl Fn(char) -> bool) -> String {
        let taken: String = self.word[self.at..].iter().take_while(|c| fits(**c)).collect();
        self.at += taken.chars().count();
        taken
    }

    fn peek(&self) -> Option<char> {
        self.word.get(self.at).copied()
    }

    /// Where the reader stands in the whole text.
    fn place(&self) -> usize {
        self.start + self.at
    }

    /// The character at which the reader stands has no business there.
    fn odd(&self) -> Fault {
        let found = self.peek().unwrap_or(' ');
        (self.place(), CronFault::Character { found, allowed: self.allowed() })
    }

    fn allowed(&self) -> String {
        let (low, high) = self.field.bounds();
        let signs = match self.field {
            CronField::DayOfMonth => "`* , - / ? L W`",
            CronField::DayOfWeek => "`* , - / ? L #`",
            _ => "`* , - /`",
        };
        match self.field.names() {
            [] => format!("{low} to {high} and {signs}"),
            names => format!("{low} to {high}, {} to {} and {signs}", names[0], names[names.len() - 1]),
        }
    }

    /// Both numbers of Sunday are one.
    fn wrapped(&self, value: u32) -> u32 {
        if self.field == CronField::DayOfWeek { value % 7 } else { value }
    }
}

/// Every so many values, from one to another, as bits.
fn span(from: u32, to: u32, step: u32) -> u64 {
    (from..=to).step_by(step as usize).fold(0, |bits, value| bits | 1 << value)
}
