// The scenarios of the simulator, as `stoker simulate` runs them; all other arguments are passed on.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";

export async function benchSimulate({ rest }: { rest: readonly string[] }): Promise<void> {
  const main = join(import.meta.dirname, "../simulator/main.ts");
  const [code] = await once(
    spawn(process.execPath, ["--max-semi-space-size=64", main, ...rest], { stdio: "inherit" }),
    "exit",
  );
  process.exitCode = code ?? 1;
}
