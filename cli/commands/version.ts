import type { Command } from "commander";
import type { Responses } from "../../proto/gen/responses.ts";
import { openApi } from "../api.ts";
import { CliError, exitCode } from "../cli-error.ts";
import { openTerminal } from "../terminal.ts";

type Versions = Responses["GET /cli/version"];

export function addVersion(program: Command, version: string): void {
  const group = program.command("version").description("version of this program");
  group
    .command("info", { isDefault: true })
    .description("print the version")
    .action((_flags: object, command: Command) => openTerminal(command).show({ version }, () => version));
  group
    .command("check")
    .description("check whether the server supports this version")
    .action(async (_flags: object, command: Command) => {
      const terminal = openTerminal(command);
      const api = openApi(terminal.connection, { anonymous: true });
      const versions = await api.call<Versions>("GET", `/cli/version?version=${encodeURIComponent(version)}`);
      if (isOlder(version, versions.min)) {
        throw new CliError(`Version ${version} is too old. Update to at least ${versions.min}.`, exitCode.failed);
      }
      if (isOlder(version, versions.update)) terminal.progress(`Version ${versions.latest} is available.`);
      terminal.show({ version, ...versions }, () => `${version} is supported`);
    });
}

function isOlder(one: string, other: string): boolean {
  return one.localeCompare(other, "en", { numeric: true }) < 0;
}
