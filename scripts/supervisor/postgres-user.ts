// PostgreSQL does not run as root. In that case it runs as `postgres` or `nobody`.
import { execFileSync, spawnSync } from "node:child_process";
import { UpError } from "./up-error.ts";

/** Options of spawn. Empty for the user of this process. */
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

/** Checks access of a user: `x` execute or traverse, `w` write. */
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
