// `up` with a certificate of the operator's own: its public port speaks TLS, for `up` itself and for the command line too.
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it } from "vitest";
import { freePort } from "../../fakes/free-port.ts";
import { type CertificateFiles, writeCertificate } from "../../fakes/public-certificate.ts";
import { clearUp, newDataDir, root, startUp, type Up } from "./start-up.ts";

const run = promisify(execFile);
let folder: string;
let files: CertificateFiles;
let up: Up;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "stoker-up-tls-"));
  files = writeCertificate(folder, "up");
  const tls = { STOKER_TLS_CERT: files.certFile, STOKER_TLS_KEY: files.keyFile };
  up = startUp(newDataDir(), await freePort(), ["--model", "none", "--driver", "process"], tls);
  await up.ready();
});
afterAll(async () => {
  await clearUp(up);
  rmSync(folder, { recursive: true, force: true });
});

const stoker = (env: NodeJS.ProcessEnv, ...args: string[]) =>
  run(join(root, "cli/stoker"), args, { env: { ...process.env, STOKER_DATA: up.dataDir, ...env }, timeout: 60_000 });

it("starts, and prints an address that the command line reaches with the certificate's authority", async () => {
  expect(up.output()).toContain(up.url);
  const { stdout } = await stoker({ NODE_EXTRA_CA_CERTS: files.certFile }, "me");
  expect(stdout).toContain("admin");
  await expect(stoker({}, "me")).rejects.toMatchObject({
    stderr: expect.stringContaining("is not trusted"),
  });
});

it("sends no response to plain HTTP", async () => {
  await expect(fetch(up.url.replace("https", "http"))).rejects.toThrow();
});
