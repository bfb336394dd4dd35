// A child that cannot start until a person acts is not restarted for a minute before `up` prints why.
import { existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { keepAlive } from "../../../scripts/supervisor/child.ts";
import { untilReady } from "../../../scripts/supervisor/ready.ts";
import { freePort } from "../../fakes/free-port.ts";
import { sharedPostgres } from "../../fakes/postgres.ts";

const dataDir = mkdtempSync(join(tmpdir(), "stoker-misconfigured-"));
for (const folder of ["run", "logs"]) mkdirSync(join(dataDir, folder));
afterAll(() => rmSync(dataDir, { recursive: true, force: true }));

it("prints that the pepper is missing and where, and nothing else", async () => {
  const postgres = await sharedPostgres();
  const databaseUrl = await postgres.migratedDatabase();
  const secrets = join(dataDir, "secrets");
  const start = async (warn: (line: string) => void) =>
    keepAlive(
      {
        name: "control-plane",
        title: "The control plane",
        command: process.execPath,
        args: [join(import.meta.dirname, "../../../control-plane/main.ts")],
        env: {
          ...process.env,
          DATABASE_URL: databaseUrl,
          STOKER_SECRETS_DIR: secrets,
          STOKER_PORT: String(await freePort()),
          STOKER_ADMIN_PORT: "0",
          STOKER_RPC_PORT: "0",
          STOKER_HOST: "127.0.0.1",
          STOKER_ADMIN_KEY_FILE: join(dataDir, "admin.key"),
          STOKER_PORTS_FILE: join(dataDir, "ports.json"),
        },
        stopSteps: [{ signal: "SIGTERM", waitMs: 10_000 }],
      },
      dataDir,
      warn,
    );
  const wait = { title: "The control plane", dataDir, limitMs: 60_000, signal: new AbortController().signal };
  const first = await start(() => {});
  await untilReady({ ...wait, child: first }, async () => existsSync(join(dataDir, "ports.json")));
  await first.stop();
  rmSync(join(secrets, "pepper"), { force: true });

  const second = await start(() => {});
  const failure = await untilReady({ ...wait, child: second }, async () => false).catch((error: Error) => error);
  await second.stop();
  await postgres.stop();
  expect(String((failure as Error).message)).toMatch(
    /^The control plane cannot start\. control-plane: The database has accounts or keys, but pepper is missing in /,
  );
  expect(second.deaths()).toBe(1);
}, 120_000);
