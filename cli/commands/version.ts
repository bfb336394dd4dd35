import type { Command } from "commander";
import { openApi } from "../api.ts";
import { CliError, exitCode } from "../cli-error.ts";
import { openTerminal } from "../terminal.ts";

interface Versions {
  readonly min: string;
  readonly update: string;
  readonly latest: string;
}

export function addVersion(program: Command, version: string): void {
  const group = program.command("version").description("this program and what the server expects");
  group
    .command("info", { isDefault: true })
    .description("the version of this program")
    .action((_flags: object, command: Command) => openTerminal(command).show({ version }, () => version));
  group
    .command("check")
    .description("ask the server whether this version is still good")
    .action(async (_flags: object, command: Command) => {
      const terminal = openTerminal(command);
      const api = openApi(terminal.connection, { anonymous: true });
      const versions = await api.call<Versions>("GET", `/cli/version?version=${encodeURIComponent(version)}`);
      if (isOlder(version, versions.min)) {
        throw new CliError(`Version ${version} is too old: at least ${versions.min} is needed.`, exitCode.failed);
      }
      if (isOlder(version, versions.update)) terminal.progress(`Version ${versions.latest} is out; please update.`);
      terminal.show({ version, ...versions }, () => `${version} is good`);
    });
}

function isOlder(one: string, other: string): boolean {
  return one.localeCompare(other, "en", { numeric: true }) < 0;
}
