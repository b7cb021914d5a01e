//! `capture SCRIPT FILE`: writes the capture that a script of the target `memo` describes, to look at what failed.

use overhead_capture::{PcapngWriter, WriterOptions};
use overhead_model::LinkType;
use overhead_testing::hostile::ScriptedCapture;
use std::env;
use std::error::Error;
use std::fs::{self, File};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = env::args_os().skip(1).collect();
    let [script, file] = arguments.as_slice() else { return Err("usage: capture SCRIPT FILE".into()) };
    let capture = ScriptedCapture::decode(&fs::read(script)?);
    let options = WriterOptions::new(LinkType::ETHERNET);
    let mut writer = PcapngWriter::new(&file.to_string_lossy(), File::create(file)?, &options)?;
    for frame in capture.frames() {
        writer.write(&frame)?;
    }
    writer.finish(None)?;
    Ok(())
}
