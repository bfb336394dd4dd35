// Programs of other people's making that read audio, where the machine has them.
import { spawnSync } from "node:child_process";

/** Undefined, said loudly, where one is missing. `promise`: what then stays unproven. */
export function hasProgram(name: string, promise: string): boolean {
  const isThere = spawnSync("sh", ["-c", `command -v ${name}`]).status === 0;
  if (!isThere) process.stderr.write(`\nNOT PROVEN: ${promise}: ${name} is not installed\n`);
  return isThere;
}

/** Debian keeps some of its formats in packages of their own. Says loudly what stays unproven without one. */
export function doesSoxRead(format: string, promise: string): boolean {
  const isRead = ` ${runProgram("sox", ["--help"]).toString()}`.replaceAll("\n", " ").includes(` ${format} `);
  if (!isRead) process.stderr.write(`\nNOT PROVEN: ${promise}: sox reads no ${format} here (libsox-fmt-${format})\n`);
  return isRead;
}

/** What it printed; throws with its own words when it fails. */
export function runProgram(name: string, args: readonly string[], input?: Buffer): Buffer {
  const { status, stdout, stderr } = spawnSync(name, args, { input, maxBuffer: 64 * 1024 * 1024 });
  if (status !== 0) throw new Error(`${name} ${args.join(" ")} ended with ${status}: ${stderr}`);
  return stdout;
}

/** The share of `wanted`'s words that stand in `heard`, in the same order. */
export function wordShare(wanted: string, heard: string): number {
  const a = wordsOf(wanted);
  const b = wordsOf(heard);
  const row = new Array<number>(b.length + 1).fill(0);
  for (const word of a) {
    let diagonal = 0;
    for (let j = 1; j <= b.length; j += 1) {
      const above = row[j] as number;
      row[j] = word === b[j - 1] ? diagonal + 1 : Math.max(above, row[j - 1] as number);
      diagonal = above;
    }
  }
  return (row[b.length] as number) / a.length;
}

function wordsOf(text: string): readonly string[] {
  return text.toLowerCase().match(/[\p{L}\p{N}']+/gu) ?? [];
}
