// Scoped tokens: what one says of itself, and code that signs one with a key.
import { inPython, inShell, inTypeScript, quoted } from "./literals.ts";

const prefix = "jwt:";

export interface DecodedToken {
  readonly header: Readonly<Record<string, unknown>>;
  readonly claims: Readonly<Record<string, unknown>>;
  /** Undefined: the key id does not have the form of this server's tokens. */
  readonly account: string | undefined;
  readonly keyName: string | undefined;
  /** Unix seconds. Undefined: no valid claim. */
  readonly expiresAt: number | undefined;
}

/** Reads a token without verifying it; `jwt:` may be missing. Undefined: the text is no JWT. */
export function decodeToken(text: string): DecodedToken | undefined {
  const [header, claims, signature, ...rest] = text
    .trim()
    .replace(prefix, "")
    .split(".")
    .map((part) => part.trim());
  if (!header || !claims || !signature || rest.length > 0) return undefined;
  const [head, body] = [jsonOf(header), jsonOf(claims)];
  if (!head || !body) return undefined;
  const [, account, name] = /^(.+):([^:]+)$/.exec(String(head["kid"] ?? "")) ?? [];
  const expiresAt = body["exp"];
  return {
    header: head,
    claims: body,
    account,
    keyName: name === undefined ? undefined : textOf(name),
    expiresAt: Number.isSafeInteger(expiresAt) ? (expiresAt as number) : undefined,
  };
}

/** Decodes base64 or base64url. Undefined: neither, or no UTF-8. */
function textOf(base64: string): string | undefined {
  try {
    const binary = atob(base64.replaceAll("-", "+").replaceAll("_", "/"));
    return new TextDecoder("utf-8", { fatal: true }).decode(Uint8Array.from(binary, (char) => char.charCodeAt(0)));
  } catch {
    return undefined;
  }
}

function jsonOf(part: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(textOf(part) ?? "");
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? (value as Readonly<Record<string, unknown>>)
      : undefined;
  } catch {
    return undefined;
  }
}

/** Key id in the header of the tokens that a key signs. */
export function kidOf(account: string, keyName: string): string {
  const bytes = new TextEncoder().encode(keyName);
  return `${account}:${btoa(String.fromCharCode(...bytes))}`;
}

export interface TokenTerms {
  /** Id of the account. */
  readonly account: string;
  readonly keyName: string;
  /** Empty: any model. */
  readonly models: readonly string[];
  readonly lifeSeconds: number;
  /** USD. Undefined: no limit of its own. */
  readonly limit: number | undefined;
}

/** Code that signs such a token with the key in STOKER_API_KEY. */
export function signingExamples(terms: TokenTerms): Readonly<Record<"Python" | "TypeScript" | "Command line", string>> {
  const { account, keyName, models, lifeSeconds, limit } = terms;
  const kid = quoted(kidOf(account, keyName));
  const more = {
    ...(models.length > 0 ? { models } : {}),
    ...(limit === undefined ? {} : { spending_limit: limit }),
  };
  const claims = (write: (value: unknown, indent: number) => string, indent: number, isPython: boolean) =>
    Object.entries(more).map(
      ([name, value]) => `${" ".repeat(indent)}${isPython ? quoted(name) : name}: ${write(value, indent)},`,
    );
  return {
    Python: [
      "import os, time",
      "",
      "import jwt  # pip install pyjwt",
      "",
      'token = "jwt:" + jwt.encode(',
      "    {",
      `        "sub": ${quoted(account)},`,
      `        "exp": int(time.time()) + ${lifeSeconds},`,
      ...claims(inPython, 8, true),
      "    },",
      '    os.environ["STOKER_API_KEY"],',
      '    algorithm="HS256",',
      `    headers={"kid": ${kid}},`,
      ")",
      "print(token)",
    ].join("\n"),
    TypeScript: [
      'import { SignJWT } from "jose"; // npm install jose',
      "",
      'const secret = new TextEncoder().encode(process.env["STOKER_API_KEY"]);',
      "const signed = await new SignJWT({",
      `  sub: ${quoted(account)},`,
      `  exp: Math.floor(Date.now() / 1000) + ${lifeSeconds},`,
      ...claims(inTypeScript, 2, false),
      "})",
      `  .setProtectedHeader({ alg: "HS256", typ: "JWT", kid: ${kid} })`,
      "  .sign(secret);",
      'console.log("jwt:" + signed);',
    ].join("\n"),
    "Command line": mintCommand(terms),
  };
}

/** The command that asks the server to sign such a token. */
export function mintCommand({ keyName, models, lifeSeconds, limit }: Omit<TokenTerms, "account">): string {
  const word = /^[\w./:-]+$/.test(keyName) ? keyName : inShell(keyName);
  return [
    `stoker token mint --key ${word}`,
    ...models.map((model) => `--model ${model}`),
    `--expires ${lifeText(lifeSeconds)}`,
    ...(limit === undefined ? [] : [`--limit ${limit}`]),
  ].join(" ");
}

/** As the command line reads it, in the largest whole unit. */
function lifeText(seconds: number): string {
  if (seconds % 86_400 === 0) return `${seconds / 86_400}d`;
  if (seconds % 3600 === 0) return `${seconds / 3600}h`;
  return seconds % 60 === 0 ? `${seconds / 60}m` : `${seconds}s`;
}
