// Passkeys of the browser. Options and results are WebAuthn JSON.

type Options = Record<string, unknown>;

/** False in an old browser or without HTTPS. */
export const canUsePasskeys = (): boolean =>
  typeof PublicKeyCredential === "function" && typeof PublicKeyCredential.parseRequestOptionsFromJSON === "function";

/** Throws if the user cancels. */
export async function signWithPasskey(options: Options): Promise<unknown> {
  const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(
    options as unknown as PublicKeyCredentialRequestOptionsJSON,
  );
  return answerOf(await request(() => navigator.credentials.get({ publicKey })));
}

/** Throws if the user cancels, or the device already has a passkey of the account. */
export async function createPasskey(options: Options): Promise<unknown> {
  const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(
    options as unknown as PublicKeyCredentialCreationOptionsJSON,
  );
  return answerOf(await request(() => navigator.credentials.create({ publicKey })));
}

function answerOf(credential: Credential | null): unknown {
  if (!credential) throw new Error("The browser returned no passkey. Try again.");
  return (credential as PublicKeyCredential).toJSON();
}

async function request(work: () => Promise<Credential | null>): Promise<Credential | null> {
  try {
    return await work();
  } catch (error) {
    const isKnown = error instanceof DOMException && error.name === "InvalidStateError";
    throw new Error(
      isKnown
        ? "This device already has a passkey for your account."
        : "The passkey request was cancelled, timed out, or is for another site. Try again.",
    );
  }
}
