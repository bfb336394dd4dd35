import { createSign, generateKeyPairSync } from "node:crypto";
import { SignJWT } from "jose";
import { afterAll, describe, expect, it } from "vitest";
import { forge, kidOf, nowS, openRing, refusals, user } from "./key-ring.ts";

const year = 365 * 24 * 3600;
const header = { alg: "HS256", typ: "JWT", kid: kidOf("auto") };
const payload = { sub: user, exp: nowS + 3600 };

function ring() {
  const opened = openRing();
  return { ...opened, key: opened.add("auto") };
}

afterAll(() => {
  // Never told which check failed.
  expect(refusals.size).toBe(1);
});

describe("a token signed with a standard library", () => {
  const mint = (secret: string, claims: Record<string, unknown>, kid = kidOf("auto")) =>
    new SignJWT(claims)
      .setProtectedHeader({ alg: "HS256", typ: "JWT", kid })
      .setSubject(user)
      .setExpirationTime(nowS + 3600)
      .sign(Buffer.from(secret));

  it("authenticates as its signer, limited to its models, expiry and budget", async () => {
    const { key, open } = ring();
    const caller = await open(`jwt:${await mint(key.secret, { models: ["a/b", "c/d"], spending_limit: 0.5 })}`);
    expect(caller).toMatchObject({
      account: user,
      key: key.id,
      via: "jwt",
      isAdmin: false,
      expiresAtMs: (nowS + 3600) * 1000,
      spending: { token: { limit: 500_000_000n } },
    });
    expect(caller?.models).toEqual(new Set(["a/b", "c/d"]));
    expect(caller?.spending.token?.budget).toMatch(/^jwt\/[\w-]{43}$/);
  });

  it("may name one model in `model`, and allows every model if it names none", async () => {
    const { key, open } = ring();
    expect((await open(`jwt:${await mint(key.secret, { model: "a/b" })}`))?.models).toEqual(new Set(["a/b"]));
    expect(await open(`jwt:${await mint(key.secret, {})}`)).toMatchObject({
      models: null,
      spending: { token: { limit: null } },
    });
    expect((await open(`jwt:${await mint(key.secret, { models: null, model: null })}`))?.models).toBeNull();
    expect((await open(`jwt:${await mint(key.secret, { models: ["a/b", "c/d"], model: "c/d" })}`))?.models).toEqual(
      new Set(["c/d"]),
    );
    expect((await open(`jwt:${await mint(key.secret, { models: ["a/b"], model: "c/d" })}`))?.models).toEqual(new Set());
  });

  it.each(["auto", "ключ", "名前", "a:b", "?>~", "x".repeat(128)])(
    "by a key called %s is found, in both alphabets of base64, padded or not",
    async (name) => {
      const opened = openRing();
      const key = opened.add(name);
      const padded = Buffer.from(name).toString("base64");
      const urlSafe = padded.replaceAll("+", "-").replaceAll("/", "_");
      for (const spelled of [padded, urlSafe, padded.replace(/=+$/, ""), urlSafe.replace(/=+$/, "")])
        expect(await opened.open(`jwt:${await mint(key.secret, {}, `${user}:${spelled}`)}`)).toMatchObject({
          key: key.id,
        });
    },
  );
});

describe("the algorithm", () => {
  it.each([
    "none",
    "None",
    "NONE",
    "nOnE",
    "",
    "hs256",
    "HS384",
    "HS512",
    "RS256",
    "ES256",
    null,
    undefined,
    256,
    ["HS256"],
  ])("%j is refused, whatever the signature", async (alg) => {
    const { key, open } = ring();
    for (const signature of [undefined, "", "AA"])
      expect(
        await open(forge(key, { header: { ...header, alg }, ...(signature === undefined ? {} : { signature }) })),
      ).toBeUndefined();
  });

  it("HS384 and HS512 with the right key are refused, and so is HS256 signed with them", async () => {
    const { key, open } = ring();
    for (const hash of ["sha384", "sha512"]) {
      expect(await open(forge(key, { header: { ...header, alg: hash.replace("sha", "HS") }, hash }))).toBeUndefined();
      expect(await open(forge(key, { hash }))).toBeUndefined();
    }
  });

  it("RS256 with the attacker's key pair is refused, in every header field that can name a key", async () => {
    const { key, open } = ring();
    const { privateKey, publicKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
    const jwk = publicKey.export({ format: "jwk" });
    const pem = publicKey.export({ type: "spki", format: "pem" }).toString();
    for (const more of [{}, { jwk }, { jku: "https://evil.example/keys" }, { x5u: "https://evil.example/cert" }]) {
      const unsigned = forge(key, { header: { ...header, alg: "RS256", ...more }, signature: "" }).slice(4, -1);
      const signature = createSign("RSA-SHA256").update(unsigned).sign(privateKey, "base64url");
      expect(await open(`jwt:${unsigned}.${signature}`)).toBeUndefined();
      // The public key as the secret of an HMAC.
      expect(await open(forge({ name: "auto", secret: pem }, { header: { ...header, ...more } }))).toBeUndefined();
    }
  });

  it("fields that name a key are ignored, `crit` is refused", async () => {
    const { key, open } = ring();
    const more = {
      jwk: { kty: "oct", k: "AA" },
      jku: "https://evil.example",
      x5u: "https://evil.example",
      x5c: ["AA"],
    };
    expect(await open(forge(key, { header: { ...header, ...more } }))).toBeDefined();
    for (const crit of [["exp"], [], null])
      expect(await open(forge(key, { header: { ...header, crit } }))).toBeUndefined();
  });

  it.each(["jwt", "JWS", "at+jwt", undefined, null])("of a token typed %j is not asked", async (typ) => {
    const { key, open } = ring();
    expect(await open(forge(key, { header: { ...header, typ } }))).toBeUndefined();
  });
});

describe("the signature", () => {
  it("in its four encodings is one token with one budget", async () => {
    const { key, open } = ring();
    const token = forge(key);
    const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    const first = alphabet.indexOf(token.at(-1) as string) & ~3;
    const spellings = [0, 1, 2, 3].map((spare) => token.slice(0, -1) + alphabet[first + spare]);
    expect(new Set(spellings).size).toBe(4);
    const budgets = [];
    for (const spelling of spellings) budgets.push((await open(spelling))?.spending.token?.budget);
    expect(budgets[0]).toBeDefined();
    expect(new Set(budgets).size).toBe(1);
  });

  it("covers every byte: none may be changed, removed or added", async () => {
    const { key, open } = ring();
    const token = forge(key);
    for (let i = 4; i < token.length - 1; i += 3) {
      const other = token[i] === "A" ? "B" : "A";
      expect(await open(token.slice(0, i) + other + token.slice(i + 1)), `byte ${i}`).toBeUndefined();
    }
    for (const spelled of [
      `${token}A`,
      token.slice(0, -2),
      `${token}=`,
      `${token}.`,
      ` ${token}`,
      token.slice(4),
      `JWT:${token.slice(4)}`,
    ])
      expect(await open(spelled), spelled).toBeUndefined();
  });

  it("by another key, or missing, is refused", async () => {
    const { key, open, add } = ring();
    const other = add("other");
    expect(await open(forge({ name: "auto", secret: other.secret }))).toBeUndefined();
    for (const secret of ["", "no such key", "undefined", "null"]) {
      expect(await open(forge({ name: "auto", secret }))).toBeUndefined();
      expect(await open(forge({ name: "unknown", secret }))).toBeUndefined();
    }
    for (const signature of ["", "AA", "A".repeat(43), "A".repeat(86)])
      expect(await open(forge(key, { signature }))).toBeUndefined();
  });

  it("covers the parsed text: parts in standard base64, padded or with spaces are refused", async () => {
    const { key, open } = ring();
    const [head = "", body = "", signature = ""] = forge(key).slice(4).split(".");
    for (const spelled of [
      `${head}=.${body}.${signature}`,
      `${head}.${body}=.${signature}`,
      `${head} .${body}.${signature}`,
      `${head}.${body}.${signature}\n`,
      `${head}..${signature}`,
      `.${body}.${signature}`,
      `${head}.${body}`,
      `${head}.${body}.${signature}.${signature}`,
    ])
      expect(await open(`jwt:${spelled}`), spelled).toBeUndefined();
  });
});

describe("the key id", () => {
  const kids = [
    "auto",
    `${user}:`,
    `:${Buffer.from("auto").toString("base64")}`,
    `${user}:auto`,
    kidOf("auto", "u:2000000000000"),
    kidOf("auto", "' or '1'='1"),
    kidOf("' or '1'='1"),
    kidOf("auto' --"),
    kidOf("../../secrets/kek"),
    kidOf("/dev/null"),
    kidOf("auto\u0000"),
    kidOf("AUTO"),
    kidOf("auto "),
    kidOf("x".repeat(129)),
    `${kidOf("auto")}:`,
    `${user}:${Buffer.from([0xff, 0xfe]).toString("base64")}`,
    `${user}:YXV0bw==\u0000`,
    `${user}:YX V0bw==`,
    "",
    7,
    null,
    { account: user },
    [kidOf("auto")],
  ];
  it.each(kids)("%j names no key", async (kid) => {
    const { key, open } = ring();
    expect(await open(forge(key, { header: { ...header, kid } }))).toBeUndefined();
  });

  it("of a megabyte is refused without decoding", async () => {
    const { key, open, asked } = ring();
    expect(await open(forge(key, { header: { ...header, kid: kidOf("x".repeat(1024 * 1024)) } }))).toBeUndefined();
    expect(asked.findSigningKey).toBe(0);
  });

  it("determines the budget and permissions: a token cannot claim those of another account", async () => {
    const { key, open } = ring();
    for (const sub of ["u:2000000000000", "", null, undefined, 7, [user]])
      expect(await open(forge(key, { payload: { ...payload, sub } }))).toBeUndefined();
  });
});

describe("the expiry of a token", () => {
  it.each([
    undefined,
    null,
    "1800003600",
    nowS + 3600.5,
    "soon",
    true,
    [nowS + 3600],
    -1,
    0,
    nowS - 1,
    nowS,
    nowS + year + 61,
    Number.MAX_SAFE_INTEGER,
  ])("%j is refused", async (exp) => {
    const { key, open } = ring();
    expect(await open(forge(key, { payload: { ...payload, exp } }))).toBeUndefined();
  });

  it.each(["1e99", "1800003600.0", "1.8000036e9", "9007199254740993", "-1800003600", "01800003600"])(
    "spelled %s is refused",
    async (exp) => {
      const { key, open } = ring();
      expect(await open(forge(key, { payload: `{"sub":"${user}","exp":${exp}}` }))).toBeUndefined();
      expect(await open(forge(key, { payload: `{"sub":"${user}","exp":${exp},"x":{"exp":1}}` }))).toBeUndefined();
    },
  );

  it("may be a second away, or up to a year plus one minute of leeway", async () => {
    const { key, open } = ring();
    for (const exp of [nowS + 1, nowS + year, nowS + year + 60])
      expect(await open(forge(key, { payload: { ...payload, exp } }))).toBeDefined();
  });

  it("applies to the second, also for a token verified before", async () => {
    const { key, open, clock } = ring();
    const token = forge(key, { payload: { ...payload, exp: nowS + 10 } });
    expect(await open(token)).toBeDefined();
    clock.unixMs += 9_999;
    expect(await open(token)).toBeDefined();
    clock.unixMs += 1;
    expect(await open(token)).toBeUndefined();
  });
});

describe("claims", () => {
  it.each([
    ["no JSON", "{"],
    ["no object", `["${user}"]`],
    ["a sub said twice", `{"sub":"u:2","sub":"${user}","exp":${nowS + 60}}`],
    ["an end said twice", `{"sub":"${user}","exp":1,"exp":${nowS + 60}}`],
    ["an end said twice, once escaped", `{"sub":"${user}","exp":${nowS + 60},"\\u0065xp":${nowS + 60}}`],
    ["a limit said twice", `{"sub":"${user}","exp":${nowS + 60},"spending_limit":0,"spending_limit":1e6}`],
  ])("of %s are refused", async (_name, text) => {
    const { key, open } = ring();
    expect(await open(forge(key, { payload: text }))).toBeUndefined();
  });

  it("a header with two algorithms is refused", async () => {
    const { key, open } = ring();
    const text = `{"alg":"none","typ":"JWT","kid":"${kidOf("auto")}","alg":"HS256"}`;
    expect(await open(forge(key, { header: text }))).toBeUndefined();
  });

  it("that are unknown are ignored, even if nested copies of known ones", async () => {
    const { key, open } = ring();
    const text = `{"sub":"${user}","exp":${nowS + 60},"iss":"x","x":{"exp":"no","exp":2},"y":[{"sub":1},{"sub":2}],"z":"{\\"exp\\""}`;
    expect(await open(forge(key, { payload: text }))).toMatchObject({ expiresAtMs: (nowS + 60) * 1000 });
  });

  it.each([
    { models: "a/b" },
    { models: [1] },
    { models: {} },
    { model: ["a/b"] },
    { model: 7 },
    { spending_limit: -1 },
    { spending_limit: "1" },
    { spending_limit: [1] },
    { scope: "Realtime" },
    { scope: "realtime " },
    { scope: "realtime transcription" },
    { scope: ["realtime"] },
    { scope: "none" },
    { scope: "" },
    { scope: null },
  ])("%j are refused", async (claims) => {
    const { key, open } = ring();
    expect(await open(forge(key, { payload: { ...payload, ...claims } }))).toBeUndefined();
  });

  it("an infinite limit is refused; one beyond the maximum amount becomes the maximum", async () => {
    const { key, open } = ring();
    const limited = (limit: string) => `{"sub":"${user}","exp":${nowS + 60},"spending_limit":${limit}}`;
    expect(await open(forge(key, { payload: limited("1e999") }))).toBeUndefined();
    expect((await open(forge(key, { payload: limited("1e300") })))?.spending.token?.limit).toBe(
      9_000_000_000_000_000_000n,
    );
    expect((await open(forge(key, { payload: limited("0") })))?.spending.token?.limit).toBe(0n);
  });

  it("an empty list of models allows none", async () => {
    const { key, open } = ring();
    expect((await open(forge(key, { payload: { ...payload, models: [] } })))?.models).toEqual(new Set());
  });
});
