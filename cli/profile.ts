// Server and key of the current user. The file is readable only by that user.
import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { parseEnv } from "node:util";

export function profilePath(env: NodeJS.ProcessEnv): string {
  return join(env["XDG_CONFIG_HOME"] ?? join(homedir(), ".config"), "stoker", "profile");
}

export function readProfile(path: string): NodeJS.Dict<string> {
  return existsSync(path) ? parseEnv(readFileSync(path, "utf8")) : {};
}

export function writeProfile(path: string, host: string, key: string): void {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  // Writing keeps the mode of an existing file.
  if (existsSync(path)) chmodSync(path, 0o600);
  writeFileSync(path, `STOKER_HOST=${host}\nSTOKER_API_KEY=${key}\n`, { mode: 0o600 });
}

export function removeProfile(path: string): void {
  rmSync(path, { force: true });
}
