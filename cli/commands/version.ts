import type { Responses } from "../../proto/gen/responses.ts";
import { openApi } from "../api.ts";
import { CliError, exitCode } from "../cli-error.ts";
import type { Command } from "../command.ts";
import { isOlder } from "../versions.ts";

type Versions = Responses["GET /cli/version"];

export function addVersion(program: Command, version: string): void {
  const group = program.command("version").description("version of this program");
  group
    .command("info", { isDefault: true })
    .description("print the version")
    .example("stoker version")
    .run((terminal) => terminal.show({ version }, () => version));
  group
    .command("check")
    .description("check whether the server supports this version")
    .example("stoker version check")
    .run(async (terminal) => {
      const api = openApi(terminal.connection, { anonymous: true });
      const versions = await api.call<Versions>("GET", `/cli/version?version=${encodeURIComponent(version)}`);
      if (isOlder(version, versions.min)) {
        throw new CliError(`Version ${version} is too old. Update to at least ${versions.min}.`, exitCode.failed);
      }
      if (isOlder(version, versions.update)) terminal.progress(`Version ${versions.latest} is available.`);
      terminal.show({ version, ...versions }, () => `${version} is supported`);
    });
}
