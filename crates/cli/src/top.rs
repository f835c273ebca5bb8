//! What happens, on the whole screen.

mod screen;

use std::{
    io::{self, IsTerminal},
    time::Duration,
};

use ratatui::{
    DefaultTerminal,
    crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers},
};
use serde_json::json;
use tokio::{
    sync::mpsc::{Receiver, channel},
    time::{MissedTickBehavior, interval},
};

use crate::{
    api::{Api, escape},
    paint::Paint,
    show,
    trouble::Trouble,
};
use screen::{Deed, Screen};

/// How often everything is looked at again.
const EVERY: Duration = Duration::from_secs(1);

/// Shows what happens until somebody has seen enough.
pub(crate) async fn top(api: &Api) -> Result<(), Trouble> {
    if !(io::stdout().is_terminal() && io::stdin().is_terminal()) {
        return Err(Trouble::Url(
            "this needs a terminal: `windlass runs list` and `doctor` do without".to_owned(),
        ));
    }
    let colours = Paint::chosen(true, std::env::var_os("NO_COLOR").as_deref()) == Paint::Colours;
    let mut screen = Screen::new(colours);
    // What is wrong with the database is said before the screen changes.
    look(api, &mut screen).await?;
    let mut terminal = ratatui::try_init()?;
    let shown = follow(api, &mut screen, &mut terminal).await;
    ratatui::try_restore()?;
    shown
}

async fn follow(api: &Api, screen: &mut Screen, terminal: &mut DefaultTerminal) -> Result<(), Trouble> {
    let mut typed = keys();
    let mut beat = interval(EVERY);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        terminal.draw(|frame| screen.draw(frame))?;
        let deed = tokio::select! {
            _ = beat.tick() => if screen.is_held() { Deed::Nothing } else { Deed::Look },
            key = typed.recv() => match key {
                Some(Ok(key)) => screen.press(key),
                Some(Err(why)) => return Err(why.into()),
                None => return Ok(()),
            },
        };
        let done = match deed {
            Deed::Nothing => Ok(()),
            Deed::Quit => return Ok(()),
            Deed::Look => look(api, screen).await,
            Deed::Show(run) => api.get(&format!("/runs/{}", escape(&run))).await.map(|answer| {
                screen.show(show::run(&answer, Paint::Plain));
            }),
            Deed::Steer { path, words } => match api.post(&path, json!({})).await {
                Ok(_) => {
                    screen.say(words);
                    look(api, screen).await
                }
                Err(why) => Err(why),
            },
        };
        // The database may be back in a moment.
        if let Err(trouble) = done {
            screen.say(trouble.to_string());
        }
    }
}

/// Asks for what the screen shows.
async fn look(api: &Api, screen: &mut Screen) -> Result<(), Trouble> {
    let overview = api.get("/overview").await?;
    let listed = api.get(&screen.path()).await?;
    screen.update(overview, listed);
    Ok(())
}

/// What is typed. A thread reads it, which ends with the program.
fn keys() -> Receiver<io::Result<KeyCode>> {
    let (sender, receiver) = channel(16);
    std::thread::spawn(move || {
        loop {
            let key = match event::read() {
                Ok(Event::Key(key)) if key.kind == KeyEventKind::Release => continue,
                Ok(Event::Key(key))
                    if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') =>
                {
                    Ok(KeyCode::Char('q'))
                }
                Ok(Event::Key(key)) => Ok(key.code),
                // It is drawn anew for a screen of another size.
                Ok(_) => Ok(KeyCode::Null),
                Err(why) => Err(why),
            };
            let is_over = key.is_err();
            if sender.blocking_send(key).is_err() || is_over {
                return;
            }
        }
    });
    receiver
}
