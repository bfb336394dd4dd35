import { randomBytes } from "node:crypto";
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createFileOnce } from "../write-file.ts";

/** Returns the join secret of agents from `agent.secret` (mode 0600) in the folder; creates it if it does not exist. */
export function readJoinSecret(folder: string): string {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const path = join(folder, "agent.secret");
  for (let attempt = 1; attempt <= 2; attempt++) {
    const found = read(path);
    if (found !== undefined) return found;
    make(path);
  }
  throw new Error(`${path} is empty. Remove it, then start again; agents read the new secret at their next start.`);
}

function read(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8").trim() || undefined;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

/** If another start creates it first, that one applies. */
function make(path: string): void {
  try {
    createFileOnce(path, Buffer.from(`${randomBytes(32).toString("base64url")}\n`), 0o600);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
}
