// After `kill -9` of an `up`, its children exit when their stdin closes. A new start waits for that and stops the others.
import { readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { isAlive, type ProcessIdentity } from "../../agent/process/process-identity.ts";
import { endProcess } from "./end-process.ts";
import { UpError } from "./up-error.ts";

type Record = ProcessIdentity & { readonly title: string };

/** Stops children of an earlier start, except PostgreSQL (see postmaster.ts). */
export async function clearLeftOvers(dataDir: string, say: (line: string) => void): Promise<void> {
  const folder = join(dataDir, "run");
  const files = readdirSync(folder).filter((file) => file.endsWith(".json") && file !== "postgres.json");
  await Promise.all(
    files.map(async (file) => {
      const left = readRecord(join(folder, file));
      if (left && isAlive(left)) {
        say(`${left.title} of an earlier start is still running (pid ${left.pid}); stopping it.`);
        const gone = await endProcess(left, [
          { signal: "SIGTERM", waitMs: 20_000 },
          { signal: "SIGKILL", waitMs: 3_000 },
        ]);
        if (!gone)
          throw new UpError(`${left.title} of an earlier start (pid ${left.pid}) does not stop. Stop it first.`);
      }
      rmSync(join(folder, file), { force: true });
    }),
  );
}

function readRecord(path: string): Record | undefined {
  try {
    return JSON.parse(readFileSync(path, "utf8")) as Record;
  } catch {
    return undefined;
  }
}
