// Passkeys (WebAuthn). Loads the library at first use, which takes 0.2 s.
import type { AuthenticationResponseJSON, RegistrationResponseJSON } from "@simplewebauthn/server";
import type { AccountId } from "../../proto/ids.ts";
import { factorConflict, WrongSecondFactor } from "./factor-errors.ts";
import type { StoredPasskey } from "./factor-store.ts";

/** The site that passkeys belong to, as the operator configured it. */
export interface RelyingParty {
  /** Host name. */
  readonly id: string;
  /** Scheme, host and port, as browsers report it. */
  readonly origin: string;
}

/** For `navigator.credentials`, in WebAuthn's JSON form. */
export type PasskeyOptions = Readonly<Record<string, unknown>> & { readonly challenge: string };

/** Throws factorConflict when the address of the installation is unknown. */
export function siteOf(site: RelyingParty | undefined): RelyingParty {
  if (site) return site;
  throw factorConflict(
    "Passkeys do not work at an IP address. Open the console at http://localhost:PORT, or ask the operator to set STOKER_PUBLIC_URL.",
  );
}

/** COSE: EdDSA, ES256, RS256. Listed, because the library's default includes experimental ones. */
const algorithms = [-8, -7, -257];

const load = () => import("@simplewebauthn/server");

type Listed = Pick<StoredPasskey, "credentialId" | "transports">;
const listed = (keys: readonly Listed[]) =>
  keys.map(({ credentialId, transports }) => ({ id: credentialId.toString("base64url"), transports: [...transports] }));

export async function registrationOptions(
  site: RelyingParty,
  owner: { readonly account: AccountId; readonly email: string; readonly displayName: string },
  existing: readonly Listed[],
): Promise<PasskeyOptions> {
  const { generateRegistrationOptions } = await load();
  const options = await generateRegistrationOptions({
    rpName: "Stoker",
    rpID: site.id,
    userID: new Uint8Array(Buffer.from(owner.account)),
    userName: owner.email,
    userDisplayName: owner.displayName,
    attestationType: "none",
    supportedAlgorithmIDs: algorithms,
    excludeCredentials: listed(existing),
    // Preferred, because a security key without storage or PIN still works beside a password.
    authenticatorSelection: { residentKey: "preferred", userVerification: "preferred" },
  });
  return { ...options };
}

/** Throws WrongSecondFactor. */
export async function verifyRegistration(
  site: RelyingParty,
  challenge: string,
  response: unknown,
): Promise<Pick<StoredPasskey, "credentialId" | "publicKey" | "transports" | "signCount">> {
  const { verifyRegistrationResponse } = await load();
  const { verified, registrationInfo } = await refusing(() =>
    verifyRegistrationResponse({
      response: response as RegistrationResponseJSON,
      expectedChallenge: challenge,
      expectedOrigin: site.origin,
      expectedRPID: site.id,
      requireUserVerification: false,
      supportedAlgorithmIDs: algorithms,
    }),
  );
  if (!verified || !registrationInfo) throw new WrongSecondFactor();
  const { id, publicKey, counter, transports = [] } = registrationInfo.credential;
  return {
    credentialId: Buffer.from(id, "base64url"),
    publicKey: Buffer.from(publicKey),
    transports: transports.filter((one) => /^[a-z-]{1,32}$/.test(one)).slice(0, 8),
    signCount: BigInt(counter),
  };
}

/** `allowed` undefined: the browser offers every passkey of this site, and the passkey must verify its user. */
export async function signInOptions(
  site: RelyingParty,
  allowed: readonly Listed[] | undefined,
): Promise<PasskeyOptions> {
  const { generateAuthenticationOptions } = await load();
  const options = await generateAuthenticationOptions({
    rpID: site.id,
    userVerification: allowed ? "preferred" : "required",
    ...(allowed ? { allowCredentials: listed(allowed) } : {}),
  });
  return { ...options };
}

/** Returns the new signature counter. Throws WrongSecondFactor, also for a lower counter, which means a copied passkey. */
export async function verifySignIn(
  site: RelyingParty,
  challenge: string,
  passkey: StoredPasskey,
  response: unknown,
  needsUserVerification: boolean,
): Promise<bigint> {
  const { verifyAuthenticationResponse } = await load();
  const { verified, authenticationInfo } = await refusing(() =>
    verifyAuthenticationResponse({
      response: response as AuthenticationResponseJSON,
      expectedChallenge: challenge,
      expectedOrigin: site.origin,
      expectedRPID: site.id,
      requireUserVerification: needsUserVerification,
      credential: {
        id: passkey.credentialId.toString("base64url"),
        publicKey: new Uint8Array(passkey.publicKey),
        counter: Number(passkey.signCount),
      },
    }),
  );
  if (!verified) throw new WrongSecondFactor();
  return BigInt(authenticationInfo.newCounter);
}

/** Returns the credential id of a browser's response; undefined when it has none. */
export function credentialIdOf(response: unknown): Buffer | undefined {
  const id = (response as { readonly id?: unknown } | null)?.id;
  if (typeof id !== "string" || id.length > 1_400 || !/^[\w-]+$/.test(id)) return undefined;
  return Buffer.from(id, "base64url");
}

/** The library throws a plain Error for a malformed or wrong response. */
async function refusing<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch {
    throw new WrongSecondFactor();
  }
}
