// Codes of an authenticator app: RFC 6238 with SHA-1, 6 digits and 30 seconds, which every app supports.
import { Secret, TOTP } from "otpauth";
import { renderSVG } from "uqr";

const periodSeconds = 30;
/** Accepted steps before and after the current one, for clock differences. */
const window = 1;

export const totpForm = /^\d{6}$/;

export interface TotpSecret {
  /** Base32, for people who type it. */
  readonly secret: string;
  readonly uri: string;
  /** The URI as a QR code. */
  readonly qrSvg: string;
}

/** 160 random bits, labelled for the app. */
export function makeTotpSecret(issuer: string, label: string): TotpSecret {
  const totp = new TOTP({ issuer, label, secret: new Secret({ size: 20 }), period: periodSeconds });
  const uri = totp.toString();
  return { secret: totp.secret.base32, uri, qrSvg: renderSVG(uri) };
}

/** The time step that `code` belongs to; undefined when it is wrong or outside the window. */
export function totpStep(secret: string, code: string, nowMs: number): bigint | undefined {
  if (!totpForm.test(code)) return undefined;
  const totp = new TOTP({ secret: Secret.fromBase32(secret), period: periodSeconds });
  const delta = totp.validate({ token: code, timestamp: nowMs, window });
  if (delta === null) return undefined;
  return BigInt(Math.floor(nowMs / 1000 / periodSeconds) + delta);
}
