import type { Command } from "commander";
import { adminGroup } from "../admin-group.ts";
import { runOnHost } from "../on-host.ts";

/** Replaces a lost key of the operator's account: on the host, by the database and the secrets, without a server. */
export function addAdminKey(program: Command): void {
  adminGroup(program)
    .command("key")
    .description("on the host: make the operator's account a new key, when its own was lost")
    .option("--data <folder>", "the data folder of `up` (default: STOKER_DATA, or .stoker)")
    .option("--revoke-others", "end every other key of that account, as when one was stolen")
    .action((flags: { data?: string; revokeOthers?: boolean }) =>
      runOnHost("admin-key.ts", flags.data, flags.revokeOthers ? ["--revoke-others"] : []),
    );
  adminGroup(program)
    .command("rotate-kek")
    .description("on the host: make a new key-encryption key and re-wrap every data key with it")
    .option("--data <folder>", "the data folder of `up` (default: STOKER_DATA, or .stoker)")
    .action((flags: { data?: string }) => runOnHost("rotate-kek.ts", flags.data));
}
