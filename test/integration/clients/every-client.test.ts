// Unmodified clients against a running control plane and agent, feature by feature: a nightly test, which writes docs/clients.md.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { type EveryTaskStack, names, startEveryTaskStack } from "../../fakes/every-task-stack.ts";
import { type CertificateFiles, writeCertificate } from "../../fakes/public-certificate.ts";
import { startTcpLink, type TcpLink } from "../../fakes/tcp-link.ts";
import { type ClientResult, writeClientPage } from "./client-page.ts";
import { startClient, versionOf } from "./client-session.ts";
import { type Client, clients, features } from "./client-table.ts";

const results: ClientResult[] = [];
const notProven = (names: readonly string[], why: string) => {
  if (names.length > 0) console.warn(`\n*** NOT PROVEN: clients that ${why}: ${names.join(", ")}\n`);
};
const titleOf = ({ registry, package: name }: Client) => `${name} of ${registry}`;

const folder = mkdtempSync(join(tmpdir(), "stoker-clients-"));
let served: EveryTaskStack;
let files: CertificateFiles;
let secure: TcpLink;
beforeAll(async () => {
  files = writeCertificate(folder, "clients");
  served = await startEveryTaskStack({ controlPlaneEnv: { STOKER_BATCH_CLOCKS: "0.1" } });
  const tls = { cert: readFileSync(files.certFile), key: readFileSync(files.keyFile) };
  secure = await startTcpLink(Number(new URL(served.stack.url).port), tls);
}, 180_000);
afterAll(async () => {
  await secure?.close();
  await served?.stop();
  rmSync(folder, { recursive: true, force: true });
  notProven(
    results.filter(({ version }) => version === undefined).map(({ client }) => titleOf(client)),
    "are not installed (`npm run test:nightly` and scripts/test install them)",
  );
  if (results.length === clients.length) await writeClientPage(results);
}, 180_000);

async function newAccount(name: string): Promise<string> {
  const person = { email: `${name}@example.com`, display_name: name, credit_usd: 100 };
  const made = await served.stack.call("POST", "/v1/admin/accounts", person);
  expect(made.status, JSON.stringify(made.body)).toBe(200);
  return made.body.api_key;
}

async function recordedRequests(key: string): Promise<number> {
  const headers = { authorization: `Bearer ${key}` };
  const { body } = await served.stack.call("GET", "/v1/requests?limit=200", undefined, headers);
  return body.requests.length;
}

/** Fails with all features that fail. */
async function runFeatures(client: Client, key: string, result: { passed: string[]; failed: string[] }): Promise<void> {
  const session = await startClient(client, {
    ...names,
    BASE_URL: served.stack.url,
    SECURE_URL: `https://localhost:${secure.port}`,
    SSL_CERT_FILE: files.certFile,
    NODE_EXTRA_CA_CERTS: files.certFile,
    API_KEY: key,
  });
  try {
    for (const name of client.features) {
      const { value, isMetered } = features[name];
      const before = await recordedRequests(key);
      try {
        expect(await session.run(name), name).toEqual(value);
        if (isMetered)
          await vi.waitFor(async () => expect(await recordedRequests(key)).toBeGreaterThan(before), 20_000);
        result.passed.push(name);
      } catch (error) {
        console.error(error);
        result.failed.push(name);
      }
    }
    expect(result.failed, session.log().slice(-6_000)).toEqual([]);
  } finally {
    session.close();
  }
}

describe("unmodified clients", () => {
  for (const [i, client] of clients.entries())
    it(`${client.name} (${client.registry}: ${client.package}) uses ${client.features.join(", ")}`, {
      timeout: 240_000,
    }, async ({ skip }) => {
      const version = await versionOf(client);
      const result = { client, version, passed: [], failed: [] };
      results.push(result);
      if (version === undefined) skip(`${client.package} is not installed`);
      await runFeatures(client, await newAccount(`client${i}`), result);
    });
});
