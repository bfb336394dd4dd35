import { adminGroup, type Command } from "../command.ts";
import { runOnHost } from "../on-host.ts";

interface Flags {
  readonly data?: string;
  readonly dir?: string;
  readonly passphraseFile?: string;
  readonly recipient?: readonly string[];
  readonly identityFile?: string;
  readonly replace?: boolean;
}

/** `stoker admin backup`: database and secrets of the control plane. `stoker backup` is for volumes of agent instances. */
export function addAdminBackup(program: Command): void {
  const backup = adminGroup(program)
    .command("backup")
    .description("encrypted backups of the control plane's database and secrets (run on the host)");
  const add = (usage: string, description: string, options = ""): Command =>
    backup
      .command(usage)
      .description(description)
      .example(`stoker admin backup ${usage.replace("<file>", "stoker-1.backup")}${options}`)
      .option("--data <folder>", "data folder of `up` (default: STOKER_DATA or .stoker)")
      .option("--dir <folder>", "folder of the backups (default: backups in the data folder)");
  const addOpened = (usage: string, description: string): Command =>
    add(usage, description, " --passphrase-file backup.key")
      .option("--passphrase-file <file>", "file with the passphrase")
      .option("--identity-file <file>", "file with an age identity (AGE-SECRET-KEY-1...)");
  addOpened("create", "create a backup and test it with a trial restore")
    .option("--recipient <key...>", "age public keys (age1...) instead of a passphrase")
    .action((flags: Flags) => run(["create"], flags));
  add("list", "list backups with age, size and last trial restore").action((flags: Flags) => run(["list"], flags));
  addOpened("verify <file>", "decrypt a backup and test it with a trial restore").action((file: string, flags: Flags) =>
    run(["verify", file], flags),
  );
  addOpened("restore <file>", "restore database and secrets; stop all control planes first")
    .option("--replace", "replace a non-empty database and secrets folder")
    .action((file: string, flags: Flags) => run(["restore", file], flags));
}

function run(args: readonly string[], flags: Flags): Promise<void> {
  const { dir, passphraseFile, identityFile, recipient = [], replace } = flags;
  const option = (name: string, value: string | undefined) => (value === undefined ? [] : [name, value]);
  return runOnHost("backup.ts", flags.data, [
    ...args,
    ...option("--dir", dir),
    ...option("--passphrase-file", passphraseFile),
    ...option("--identity-file", identityFile),
    ...recipient.flatMap((key) => ["--recipient", key]),
    ...(replace ? ["--replace"] : []),
  ]);
}
