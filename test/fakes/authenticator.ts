// A passkey in software: ES256, attestation `none`, as a browser hands its answers over. One credential each.
import { createHash, createSign, generateKeyPairSync, randomBytes } from "node:crypto";

interface Site {
  readonly id: string;
  readonly origin: string;
}

const present = 0x01;
const verified = 0x04;
const attested = 0x40;

export interface Signed {
  readonly id: string;
  readonly rawId: string;
  readonly type: "public-key";
  readonly clientExtensionResults: object;
  readonly response: Record<string, unknown>;
}

export class Authenticator {
  readonly id = randomBytes(32);
  /** Of signatures; set it to play a copied authenticator. */
  counter = 0;
  isUserVerified = true;
  readonly #pair = generateKeyPairSync("ec", { namedCurve: "P-256" });

  create(site: Site, challenge: string): Signed {
    const { x = "", y = "" } = this.#pair.publicKey.export({ format: "jwk" });
    const key = Buffer.concat([
      Buffer.from("a5010203262001215820", "hex"),
      Buffer.from(x, "base64url"),
      Buffer.from("225820", "hex"),
      Buffer.from(y, "base64url"),
    ]);
    const length = Buffer.alloc(2);
    length.writeUInt16BE(this.id.length);
    const data = Buffer.concat([this.#data(site, attested), Buffer.alloc(16), length, this.id, key]);
    const size = Buffer.alloc(2);
    size.writeUInt16BE(data.length);
    const attestation = Buffer.concat([
      Buffer.from([0xa3, ...text("fmt"), ...text("none"), ...text("attStmt"), 0xa0, ...text("authData"), 0x59]),
      size,
      data,
    ]);
    return this.#answer({
      clientDataJSON: clientData("webauthn.create", site, challenge).toString("base64url"),
      attestationObject: attestation.toString("base64url"),
      transports: ["internal"],
    });
  }

  get(site: Site, challenge: string): Signed {
    this.counter += 1;
    const data = this.#data(site, 0);
    const client = clientData("webauthn.get", site, challenge);
    const signed = createSign("sha256").update(data).update(createHash("sha256").update(client).digest());
    return this.#answer({
      clientDataJSON: client.toString("base64url"),
      authenticatorData: data.toString("base64url"),
      signature: signed.sign(this.#pair.privateKey).toString("base64url"),
    });
  }

  #data(site: Site, flags: number): Buffer {
    const counter = Buffer.alloc(4);
    counter.writeUInt32BE(this.counter);
    const all = flags | present | (this.isUserVerified ? verified : 0);
    return Buffer.concat([createHash("sha256").update(site.id).digest(), Buffer.from([all]), counter]);
  }

  #answer(response: Record<string, unknown>): Signed {
    const id = this.id.toString("base64url");
    return { id, rawId: id, type: "public-key", clientExtensionResults: {}, response };
  }
}

const clientData = (type: string, { origin }: Site, challenge: string) =>
  Buffer.from(JSON.stringify({ type, challenge, origin, crossOrigin: false }));

/** CBOR of a text of less than 24 characters. */
const text = (value: string): number[] => [0x60 + value.length, ...Buffer.from(value)];
