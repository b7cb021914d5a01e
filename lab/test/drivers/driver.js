// What the programs for Node.js share; it is put beside each.
'use strict'

// Runs the work, prints what it returns, and calls its `close` when standard input ends.
async function run (work) {
  const { close, ...said } = await work(Number(process.argv[2]), process.argv[3])
  console.log(JSON.stringify(said))
  process.stdin.resume().on('end', close)
}

exports.run = work => run(work).catch(error => { console.error(error); process.exit(1) })
exports.times = (count, make) => Array.from({ length: count }, (_, at) => make(at))
exports.version = name => `${name} ${require(`${name}/package.json`).version}`
