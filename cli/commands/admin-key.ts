import { adminGroup, type Command } from "../command.ts";
import { runOnHost } from "../on-host.ts";

/** Commands that work on the database and the secrets of the host, without a server. */
export function addAdminKey(program: Command): void {
  adminGroup(program)
    .command("key")
    .description("create a new API key for the operator account if the key was lost (run on the host)")
    .example("stoker admin key")
    .option("--data <folder>", "data folder of `up` (default: STOKER_DATA or .stoker)")
    .option("--revoke-others", "revoke all other keys of that account")
    .confirm(
      () => "Revoke all other keys of the operator account?",
      ({ revokeOthers }) => revokeOthers === true,
    )
    .action((flags: { data?: string; revokeOthers?: boolean }) =>
      runOnHost("admin-key.ts", flags.data, flags.revokeOthers ? ["--revoke-others"] : []),
    );
  adminGroup(program)
    .command("rotate-kek")
    .description("create a new key-encryption key and re-wrap all data keys (run on the host)")
    .example("stoker admin rotate-kek")
    .option("--data <folder>", "data folder of `up` (default: STOKER_DATA or .stoker)")
    .action((flags: { data?: string }) => runOnHost("rotate-kek.ts", flags.data));
  adminGroup(program)
    .command("rotate-invoice-key")
    .description("sign invoice exports with a new key, which the old one signs (run on the host)")
    .example("stoker admin rotate-invoice-key")
    .option("--data <folder>", "data folder of `up` (default: STOKER_DATA or .stoker)")
    .action((flags: { data?: string }) => runOnHost("rotate-invoice-key.ts", flags.data));
}
