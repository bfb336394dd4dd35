import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { UpError } from "./up-error.ts";

/** Secrets of the installation. `kek` may be `kek.2`, ... after a rotation. */
const needed = ["kek", "pepper", "agent.secret"];

/** Throws UpError unless the data folder and the environment name the installation to join. */
export function requireJoinable(dataDir: string, env: NodeJS.ProcessEnv): void {
  if (!env["DATABASE_URL"]) {
    throw new UpError("--join needs DATABASE_URL: the address of the database that the other control planes use.");
  }
  const secrets = join(dataDir, "secrets");
  const there = existsSync(secrets) ? readdirSync(secrets) : [];
  const missing = needed.filter(
    (name) => !there.some((file) => file === name || (name === "kek" && /^kek\.\d+$/.test(file))),
  );
  if (missing.length === 0) return;
  throw new UpError(
    `--join needs the secrets of the installation: ${missing.join(", ")} ${missing.length === 1 ? "is" : "are"} missing in ` +
      `${secrets}. Copy that folder from the data folder of a control plane that runs (mode 0700, over ` +
      "a channel that nobody else reads).",
  );
}
