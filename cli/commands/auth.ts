import type { Command } from "commander";
import { openApi } from "../api.ts";
import { CliError, exitCode } from "../cli-error.ts";
import { readLocalFile } from "../local-file.ts";
import { profilePath, writeProfile } from "../profile.ts";
import { openTerminal } from "../terminal.ts";

export function addAuth(program: Command): void {
  const auth = program
    .command("auth")
    .description("which server and key this machine uses, and the account's password");
  auth
    .command("set-token [file]")
    .description("store a key, read from a file or from stdin, for this server; it is tried first")
    .action(async (file: string | undefined, _flags: object, command: Command) => {
      const terminal = openTerminal(command);
      if (file === undefined && process.stdin.isTTY) terminal.progress("Paste the key, then press Enter and Ctrl-D.");
      const key = readLocalFile(file ?? "-")
        .toString()
        .trim();
      if (!/^[\x21-\x7e]{8,}$/.test(key)) throw new CliError("That is no API key.", exitCode.wrongUsage);
      const { host, others = [] } = terminal.connection;
      const me = await openApi({ host, others, key: () => key }).call<{ display_name: string }>("GET", "/v1/me");
      const path = profilePath(process.env);
      const hosts = [host, ...others].join(",");
      writeProfile(path, hosts, key);
      terminal.progress(`Stored for ${me.display_name} at ${hosts} in ${path}.`);
    });
  auth
    .command("set-password [file]")
    .description("set the password for the sign-in page, read from a file or from stdin; ends every browser session")
    .action(async (file: string | undefined, _flags: object, command: Command) => {
      const terminal = openTerminal(command);
      if (file === undefined && process.stdin.isTTY)
        terminal.progress("Type the new password, at least 8 characters, then press Enter and Ctrl-D.");
      const password = readLocalFile(file ?? "-")
        .toString()
        .replace(/\r?\n$/, "");
      const { email } = await terminal.api.call<{ email: string }>("GET", "/v1/me");
      await terminal.api.call("POST", "/v1/me/password", { password });
      terminal.progress(`Set. Sign in as ${email} at ${terminal.connection.host}/login.`);
    });
}
