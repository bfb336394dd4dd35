/** The message is for the operator: what happened, why, what to do. */
export class BackupRefused extends Error {
  override readonly name = "BackupRefused";
}
