// The customer's side of a rental: a key pair and the ssh command, which trusts and keeps nothing.
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

export interface SshKey {
  readonly publicKey: string;
  /** Runs a command as `user`; answers with its output. Rejects with ssh's words. */
  ssh(port: number, command: string, user?: string): Promise<string>;
  forget(): void;
}

export async function makeSshKey(): Promise<SshKey> {
  const folder = mkdtempSync(join(tmpdir(), "stoker-ssh-"));
  const file = join(folder, "key");
  await run("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-C", "a test", "-f", file]);
  const options = [
    "StrictHostKeyChecking=no",
    "UserKnownHostsFile=/dev/null",
    "IdentitiesOnly=yes",
    "BatchMode=yes",
    "ConnectTimeout=10",
    "LogLevel=ERROR",
  ];
  return {
    publicKey: readFileSync(`${file}.pub`, "utf8").trim(),
    async ssh(port, command, user = "ubuntu") {
      const args = ["-F", "none", "-i", file, "-p", String(port), ...options.flatMap((one) => ["-o", one])];
      return (await run("ssh", [...args, `${user}@127.0.0.1`, command], { timeout: 90_000 })).stdout.trim();
    },
    forget: () => rmSync(folder, { recursive: true, force: true }),
  };
}

/** A shell command that says `NAME open` or `NAME closed` for each address, asked from inside at the same time. */
export function reachScript(targets: Readonly<Record<string, readonly [host: string, port: number]>>): string {
  const asks = Object.entries(targets).map(
    ([name, [host, port]]) =>
      `(timeout 4 bash -c 'exec 3<>/dev/tcp/${host}/${port}' 2>/dev/null && echo '${name} open' || echo '${name} closed') &`,
  );
  return `${asks.join(" ")} wait`;
}
