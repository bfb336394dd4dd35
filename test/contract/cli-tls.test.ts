// What the CLI prints when it and the server disagree about TLS.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer as createHttpServer } from "node:http";
import { createServer } from "node:https";
import type { AddressInfo, Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, expect, it, onTestFinished } from "vitest";
import { writeCertificate } from "../fakes/public-certificate.ts";

const folder = mkdtempSync(join(tmpdir(), "stoker-cli-tls-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const { certFile, keyFile } = writeCertificate(folder, "server");

async function listening(server: Server): Promise<string> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const tlsServer = () =>
  listening(createServer({ cert: readFileSync(certFile), key: readFileSync(keyFile) }, (_, reply) => reply.end("{}")));

async function me(host: string, env: NodeJS.ProcessEnv = {}) {
  const child = spawn(process.execPath, [join(import.meta.dirname, "../../cli/main.ts"), "me"], {
    env: { ...process.env, STOKER_HOST: host, STOKER_API_KEY: "key", ...env },
  });
  return text(child.stderr);
}

it("names the certificate that it does not trust, and the variable that adds its authority", async () => {
  const host = `https://${await tlsServer()}`;
  expect(await me(host)).toMatch(/The certificate of https:\S+ is not trusted \(\w+\)\. Set NODE_EXTRA_CA_CERTS to /);
  expect(await me(host, { NODE_EXTRA_CA_CERTS: certFile })).not.toContain("certificate");
});

it("names the scheme to use when only one side uses TLS", async () => {
  expect(await me(`http://${await tlsServer()}`)).toMatch(/use https:\/\/ instead of http:\/\//);
  const plain = await listening(createHttpServer((_, reply) => reply.end("{}")));
  expect(await me(`https://${plain}`)).toMatch(/does not use TLS\. Use http:\/\//);
});
