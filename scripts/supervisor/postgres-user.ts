// PostgreSQL refuses to run as root: there it runs as the machine's `postgres` user, or as `nobody`.
import { execFileSync, spawnSync } from "node:child_process";
import { UpError } from "./up-error.ts";

/** What spawn takes to run a program as that user; empty when it is the user of this process. */
export type RunAs = { readonly uid: number; readonly gid: number } | Record<string, never>;

export function postgresUser(): RunAs {
  if (process.getuid?.() !== 0) return {};
  for (const name of ["postgres", "nobody"]) {
    const uid = numericId("-u", name);
    const gid = numericId("-g", name);
    if (uid !== undefined && gid !== undefined && uid !== 0) return { uid, gid };
  }
  throw new UpError(
    "PostgreSQL does not run as root, and this machine has neither a user postgres nor nobody; start it as another user.",
  );
}

/** Whether that user may do it, asked of the system itself: `x` run or pass through, `w` write. */
export function userMay(as: RunAs, what: "x" | "w", path: string): boolean {
  const test = spawnSync("/bin/sh", ["-c", `test -${what} "$1"`, "sh", path], { ...as, cwd: "/", timeout: 5000 });
  return test.status === 0;
}

function numericId(flag: "-u" | "-g", name: string): number | undefined {
  try {
    return Number(execFileSync("id", [flag, name], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim());
  } catch {
    return undefined;
  }
}
