import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { Readable } from "node:stream";
import { describe, expect, it, onTestFinished } from "vitest";
import { seal } from "../../../control-plane/wiring/backup/archive.ts";

const cli = resolve(import.meta.dirname, "../../../cli/main.ts");
const passphrase = "correct horse battery staple";

function folder(): string {
  const made = mkdtempSync(join(tmpdir(), "stoker-backup-"));
  onTestFinished(() => rmSync(made, { recursive: true, force: true }));
  return made;
}

/** A sealed file in `backups`; the database is never reached. */
async function openHost() {
  const home = folder();
  const [secrets, backups] = ["secrets", "backups"].map((name) => join(home, name)) as [string, string];
  mkdirSync(backups);
  await seal(join(backups, "one.stoker-backup"), {}, Readable.from([Buffer.alloc(1_000)]), {
    passphrase,
    recipients: [],
  });
  const file = (name: string, text: string) => {
    writeFileSync(join(home, name), text);
    return join(home, name);
  };
  const run = (...args: readonly string[]) => {
    const env = { ...process.env, DATABASE_URL: "postgres://a:pw@127.0.0.1:9/b", STOKER_SECRETS_DIR: secrets };
    const { status, stderr } = spawnSync(process.execPath, [cli, "admin", "backup", ...args], { env, cwd: home });
    return { status, error: String(stderr) };
  };
  return { home, secrets, backups, run, right: file("right", passphrase), wrong: file("wrong", `${passphrase}r`) };
}

const used = (secrets: string) => `Database: postgres://a@127.0.0.1:9/b\nSecrets folder: ${secrets}\n`;

describe("stoker admin backup", () => {
  it("prints one sentence instead of a stack trace when it is called wrongly", async () => {
    const { run, secrets, backups, right, wrong } = await openHost();
    const refused = (text: string) => ({ status: 1, error: `${used(secrets)}${text}\n` });
    expect(run("create", "--passphrase-file", "/nofile")).toEqual(
      refused("/nofile cannot be read (ENOENT). Check its path and permissions."),
    );
    expect(run("verify", "nope", "--passphrase-file", right)).toEqual(
      refused(
        `There is no backup nope in ${backups}. \`stoker admin backup list\` shows the backups; --dir names another folder.`,
      ),
    );
    expect(run("verify", "/no/file", "--passphrase-file", right)).toEqual(refused("There is no file /no/file."));
    expect(run("verify", "one.stoker-backup")).toEqual(refused("Give --passphrase-file or --identity-file."));
    expect(run("restore", "one.stoker-backup")).toEqual(refused("Give --passphrase-file or --identity-file."));
    const unopened = refused("Wrong passphrase, or the file is damaged or incomplete.");
    expect(run("verify", "one.stoker-backup", "--passphrase-file", wrong)).toEqual(unopened);
    const file = join(backups, "one.stoker-backup");
    truncateSync(file, readFileSync(file).length - 100);
    expect(run("verify", "one.stoker-backup", "--passphrase-file", right)).toEqual(unopened);
  });

  it("restores into the secrets folder of the variables, and only if it is empty", async () => {
    const { run, home, secrets, right } = await openHost();
    const found = join(home, ".stoker", "secrets");
    mkdirSync(found, { recursive: true });
    mkdirSync(secrets);
    writeFileSync(join(secrets, "agent.secret"), "of another installation");
    expect(run("restore", "one.stoker-backup", "--passphrase-file", right)).toEqual({
      status: 1,
      error:
        `${used(secrets)}The secrets folder ${secrets} is not empty. ` +
        "Name an empty database and an empty folder, or replace their content with --replace.\n",
    });
    expect(existsSync(join(found, "kek"))).toBe(false);
  }, 60_000);
});
