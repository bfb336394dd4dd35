// Backups of the control plane's own database and secrets. Run by `stoker admin backup`, on a host that has the secrets.
import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { readConfig } from "./config.ts";
import { SwapRefused } from "./store/core/database-swap.ts";
import type { Opening, Sealing } from "./wiring/backup/archive.ts";
import { type BackupNote, createBackup, listBackups, restoreBackup, verifyBackup } from "./wiring/backup/backups.ts";
import { BackupRefused } from "./wiring/backup/refused.ts";
import { exitWithError } from "./wiring/process.ts";

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    dir: { type: "string" },
    "passphrase-file": { type: "string" },
    recipient: { type: "string", multiple: true },
    "identity-file": { type: "string" },
    replace: { type: "boolean", default: false },
  },
});

function contentOf(path: string): string {
  try {
    return readFileSync(path, "utf8").trim();
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    throw new BackupRefused(`${path} cannot be read (${code}). Check its path and permissions.`, { cause });
  }
}

function opening(): Opening {
  const identityFile = values["identity-file"];
  const identities = identityFile
    ? contentOf(identityFile)
        .split("\n")
        .filter((one) => one.startsWith("AGE-SECRET-KEY-"))
    : [];
  if (identityFile && identities.length === 0)
    throw new BackupRefused(`${identityFile} holds no age identity. It needs a line AGE-SECRET-KEY-1...`);
  const passphraseFile = values["passphrase-file"];
  return { passphrase: passphraseFile ? contentOf(passphraseFile) : undefined, identities };
}

function demandOpening(): Opening {
  const given = opening();
  if (given.passphrase === undefined && given.identities.length === 0)
    throw new BackupRefused("Give --passphrase-file or --identity-file.");
  return given;
}

function sealing({ passphrase }: Opening): Sealing {
  const recipients = values.recipient ?? [];
  if ((passphrase === undefined) === (recipients.length === 0))
    throw new BackupRefused(
      "A backup is always encrypted. Give either --passphrase-file or --recipient (an age public key).",
    );
  if (passphrase !== undefined && passphrase.length < 12)
    throw new BackupRefused("The passphrase must have at least 12 characters.");
  return { passphrase, recipients };
}

const size = (bytes: number) => `${(bytes / 2 ** 20).toFixed(1)} MiB`;
const time = (ms: number) => new Date(ms).toISOString().slice(0, 19).replace("T", " ");
const ageOf = (ms: number) => `${((Date.now() - ms) / 3_600_000).toFixed(1)} h`;
const show = (note: BackupNote) =>
  `${note.file}  age ${ageOf(note.takenAtMs)}  ${size(note.sizeBytes)}  ${note.rows} rows  ` +
  (note.verifiedAtMs === null ? "not verified" : `verified ${time(note.verifiedAtMs)}`);

function demandBackup(folder: string, file: string): void {
  if (file.includes("/")) {
    if (!existsSync(file)) throw new BackupRefused(`There is no file ${file}.`);
  } else if (!existsSync(join(folder, file)))
    throw new BackupRefused(
      `There is no backup ${file} in ${folder}. \`stoker admin backup list\` shows the backups; --dir names another folder.`,
    );
}

async function main(): Promise<void> {
  const config = readConfig(process.env);
  const [command, file] = positionals;
  const dataDir = resolve(config.secretsDir, "..");
  const places = {
    databaseUrl: config.databaseUrl,
    secretsDir: config.secretsDir,
    backupsDir: resolve(values.dir ?? join(dataDir, "backups")),
    bin: process.env["STOKER_PG_BIN"],
    toolsDir: join(dataDir, "tools"),
    index: process.env["PIP_INDEX_URL"] ?? "https://pypi.org/simple",
  };
  const { version } = JSON.parse(readFileSync(join(import.meta.dirname, "../package.json"), "utf8")) as {
    version: string;
  };
  const say = (text: string) => void process.stdout.write(`${text}\n`);
  if (command === "create") say(show(await createBackup(places, sealing(opening()), opening(), version)));
  else if (command === "list") for (const note of await listBackups(places)) say(show(note));
  else if (command === "verify" && file) {
    demandBackup(places.backupsDir, file);
    say(show(await verifyBackup(places, file, demandOpening())));
  } else if (command === "restore" && file) {
    demandBackup(places.backupsDir, file);
    const { takenAtMs, refusedSettings } = await restoreBackup(places, file, demandOpening(), values.replace);
    if (refusedSettings.length > 0)
      say(
        `This role may not repeat these settings of the database; run them as its administrator:\n${refusedSettings.join("\n")}`,
      );
    say(
      `Restored the state of ${time(takenAtMs)} UTC. Start the control planes: agents then send the usage since that time again.`,
    );
  } else throw new BackupRefused("Usage: create, list, verify FILE or restore FILE.");
}

await main().catch((error: unknown) => {
  if (!(error instanceof BackupRefused || error instanceof SwapRefused)) return exitWithError(error);
  process.stderr.write(`${error.message}\n`);
  process.exit(1);
});
