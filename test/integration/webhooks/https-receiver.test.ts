// A receiver with TLS: its certificate must match the name in the URL, although the connection goes to a checked address.
import { generateKeyPairSync, sign } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import type { TLSSocket } from "node:tls";
import { AsnConvert } from "@peculiar/asn1-schema";
import { Certificate, Extensions, id_ce_subjectAltName } from "@peculiar/asn1-x509";
import { afterAll, beforeAll, expect, it } from "vitest";
import { pem, signCertificate } from "../../../control-plane/fleet/authority.ts";
import { send } from "../../../control-plane/webhooks/send.ts";
import { createTargets } from "../../../control-plane/webhooks/target.ts";

const name = "hooks.example";
const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
const certificate = pem("CERTIFICATE", certificateOf(name));

/** Signed by itself. Our own say who somebody is by a URI alone: without it the common name counts. */
function certificateOf(subject: string): Buffer {
  const made = AsnConvert.parse(
    signCertificate(
      {
        serial: "1234",
        subject,
        issuer: subject,
        notBefore: new Date(Date.now() - 86_400_000),
        notAfter: new Date(Date.now() + 86_400_000),
        publicKey,
        uri: "x:y",
      },
      privateKey,
    ),
    Certificate,
  );
  const body = made.tbsCertificate;
  body.extensions = new Extensions((body.extensions ?? []).filter(({ extnID }) => extnID !== id_ce_subjectAltName));
  const signature = sign("sha256", Buffer.from(AsnConvert.serialize(body)), privateKey);
  made.signatureValue = Uint8Array.from(signature).buffer;
  return Buffer.from(AsnConvert.serialize(made));
}

const seen: { readonly host: string | undefined; readonly servername: unknown }[] = [];
const receiver = createServer(
  { cert: certificate, key: privateKey.export({ type: "pkcs8", format: "pem" }) },
  (req, res) => {
    seen.push({ host: req.headers.host, servername: (req.socket as TLSSocket & { servername?: string }).servername });
    req.resume();
    res.writeHead(204).end();
  },
);
let port: number;
beforeAll(async () => {
  receiver.on("tlsClientError", () => {});
  receiver.listen(0, "127.0.0.1");
  await once(receiver, "listening");
  port = (receiver.address() as AddressInfo).port;
});
afterAll(() => {
  receiver.close();
  receiver.closeAllConnections();
});

const targets = createTargets({ allowsPrivate: true, blocked: [] }, async () => ["127.0.0.1"]);
const call = (host: string, trust: { readonly ca?: string }) =>
  send({ targets, ...trust }, `https://${host}:${port}/hook`, { "webhook-id": "msg_1" }, Buffer.from("{}"));

it("is called with its own name in Host and SNI", async () => {
  expect(await call(name, { ca: certificate })).toMatchObject({ outcome: "ok", status: 204 });
  expect(seen).toEqual([{ host: `${name}:${port}`, servername: name }]);
});

it("with an untrusted certificate, or one of another name, receives nothing", async () => {
  const before = seen.length;
  const [unknown, foreign] = [await call(name, {}), await call("other.example", { ca: certificate })];
  expect([unknown.outcome, foreign.outcome]).toEqual(["unreachable", "unreachable"]);
  expect(foreign.answer).toContain("ERR_TLS_CERT_ALTNAME_INVALID");
  expect(seen).toHaveLength(before);
});
