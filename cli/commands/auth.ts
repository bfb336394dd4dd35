import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import type { Command } from "commander";
import { openApi } from "../api.ts";
import { CliError, exitCode } from "../cli-error.ts";
import { profilePath } from "../connection.ts";
import { openTerminal } from "../terminal.ts";

export function addAuth(program: Command): void {
  program
    .command("auth")
    .description("which server and key this machine uses")
    .command("set-token [file]")
    .description("store a key, read from a file or from stdin, for this server; it is tried first")
    .action(async (file: string | undefined, _flags: object, command: Command) => {
      const terminal = openTerminal(command);
      if (file === undefined && process.stdin.isTTY) terminal.progress("Paste the key, then press Enter and Ctrl-D.");
      const key = readFileSync(file ?? 0, "utf8").trim();
      if (!/^[\x21-\x7e]{8,}$/.test(key)) throw new CliError("That is no API key.", exitCode.wrongUsage);
      const { host } = terminal.connection;
      const me = await openApi({ host, key: () => key }).call<{ display_name: string }>("GET", "/v1/me");
      const path = profilePath(process.env);
      mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
      writeFileSync(path, `STOKER_HOST=${host}\nSTOKER_API_KEY=${key}\n`, { mode: 0o600 });
      terminal.progress(`Stored for ${me.display_name} at ${host} in ${path}.`);
    });
}
