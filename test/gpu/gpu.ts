// Whether this machine has a GPU that models can run on; where it has none, what then stays unproven is said loudly.
import { execFileSync } from "node:child_process";

function query(...args: string[]): string {
  return execFileSync("nvidia-smi", args, { encoding: "utf8", timeout: 20_000, stdio: ["ignore", "pipe", "ignore"] });
}

export function hasGpu(promise: string): boolean {
  try {
    if (/^GPU \d+:/m.test(query("-L"))) return true;
  } catch {
    // Said below.
  }
  process.stderr.write(`\nNOT PROVEN: ${promise}: nvidia-smi shows no GPU on this machine\n`);
  return false;
}

/** Processes that hold memory of a GPU, as the driver counts them. */
export function computeProcesses(): readonly number[] {
  return query("--query-compute-apps=pid", "--format=csv,noheader").split("\n").filter(Boolean).map(Number);
}

/** Mebibytes in use on all GPUs together. */
export function usedMiB(): number {
  const lines = query("--query-gpu=memory.used", "--format=csv,noheader,nounits").split("\n").filter(Boolean);
  return lines.reduce((sum, line) => sum + Number(line), 0);
}
