/** Domains whose people sign in through their identity provider only. */
export interface EnforcedSso {
  /** Throws ssoRequired for an address of such a domain, whether or not an account has it. */
  check(email: string): Promise<void>;
}
