// Creates the database cluster in a draft folder, which is renamed when complete.
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { chownSync, existsSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { PostgresHome } from "./postgres-home.ts";
import { UpError } from "./up-error.ts";

const limitMs = 120_000;

/** Returns the folder of the cluster and the password of its user `stoker`. */
export async function ensureCluster(
  home: PostgresHome,
  secretsDir: string,
): Promise<{ readonly cluster: string; readonly password: string }> {
  const cluster = join(home.folder, "cluster");
  const secret = join(secretsDir, "postgres.password");
  if (existsSync(cluster)) {
    if (!existsSync(secret)) {
      throw new UpError(`The password of the database is missing: ${secret}. Restore it, or use a new --data folder.`);
    }
    return { cluster, password: readFileSync(secret, "utf8").trim() };
  }
  const password = randomBytes(24).toString("base64url");
  const draft = join(home.folder, "cluster.draft");
  const passwordFile = join(home.folder, "password.draft");
  rmSync(draft, { recursive: true, force: true });
  try {
    writeFileSync(passwordFile, `${password}\n`, { mode: 0o600 });
    if ("uid" in home.runAs) chownSync(passwordFile, home.runAs.uid, home.runAs.gid);
    await runTool(home, "initdb", [
      ...["-D", draft, "--username=stoker", "--auth=scram-sha-256", `--pwfile=${passwordFile}`, "--encoding=UTF8"],
      ...["--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--no-instructions"],
    ]);
    await runTool(home, "postgres", ["--single", "-D", draft, "postgres"], "CREATE DATABASE stoker;\n");
    // Write the password before the rename, because the cluster is unusable without it.
    writeFileSync(secret, `${password}\n`, { mode: 0o600, flush: true });
    renameSync(draft, cluster);
    return { cluster, password };
  } finally {
    rmSync(passwordFile, { force: true });
    rmSync(draft, { recursive: true, force: true });
  }
}

function runTool(home: PostgresHome, tool: string, args: readonly string[], input = ""): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn(join(home.bin, tool), args, {
      ...home.runAs,
      cwd: home.folder,
      env: { LC_ALL: "C", PATH: process.env["PATH"] ?? "/usr/bin:/bin" },
      timeout: limitMs,
      stdio: ["pipe", "pipe", "pipe"],
    });
    let output = "";
    const keep = (chunk: Buffer): void => {
      output = (output + chunk.toString()).slice(-2000);
    };
    child.stdout.on("data", keep);
    child.stderr.on("data", keep);
    child.stdin.on("error", () => {});
    child.stdin.end(input);
    child.once("error", (cause) =>
      reject(new UpError(`PostgreSQL's ${tool} did not start: ${cause.message}.`, { cause })),
    );
    child.once("close", (code, signal) => {
      if (code === 0 && !/(ERROR|FATAL):/.test(output)) resolve();
      else reject(new UpError(`PostgreSQL's ${tool} failed (${signal ?? code}): ${lastLine(output)}`));
    });
  });
}

const lastLine = (text: string): string => {
  const lines = text.trim().split("\n");
  return lines.find((line) => /(ERROR|FATAL|error):/.test(line)) ?? lines.at(-1) ?? "no output";
};
