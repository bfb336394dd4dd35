// After `kill -9` of an earlier `up` its children end by themselves when their stdin closes; a new start waits for that
// and ends those that do not, before it starts its own.
import { readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { isAlive, type ProcessIdentity } from "../../agent/process/process-identity.ts";
import { endProcess } from "./end-process.ts";
import { UpError } from "./up-error.ts";

type Record = ProcessIdentity & { readonly title: string };

/** PostgreSQL is not among them: postmaster.ts ends it after those that use it. */
export async function clearLeftOvers(dataDir: string, say: (line: string) => void): Promise<void> {
  const folder = join(dataDir, "run");
  const files = readdirSync(folder).filter((file) => file.endsWith(".json") && file !== "postgres.json");
  await Promise.all(
    files.map(async (file) => {
      const left = readRecord(join(folder, file));
      if (left && isAlive(left)) {
        say(`${left.title} of an earlier start is still there (pid ${left.pid}); stopping it.`);
        const gone = await endProcess(left, [
          { signal: "SIGTERM", waitMs: 20_000 },
          { signal: "SIGKILL", waitMs: 3_000 },
        ]);
        if (!gone)
          throw new UpError(`${left.title} of an earlier start (pid ${left.pid}) does not stop; end it first.`);
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
