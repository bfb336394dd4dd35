import type { AccountMails } from "../../accounts/account-mails.ts";
import type { ApiTokens } from "../../accounts/api-tokens.ts";
import type { Applications } from "../../accounts/applications.ts";
import type { CliLogins } from "../../accounts/cli-login.ts";
import type { CreateAccount } from "../../accounts/create-account.ts";
import type { DeleteAccount } from "../../accounts/delete-account.ts";
import type { Factors } from "../../accounts/factors.ts";
import type { Members } from "../../accounts/members.ts";
import type { Operator } from "../../accounts/operator.ts";
import type { Profiles } from "../../accounts/profile.ts";
import type { Projects } from "../../accounts/projects.ts";
import type { ScopedJwts } from "../../accounts/scoped-jwt.ts";
import type { Sessions } from "../../accounts/sessions.ts";
import type { SignIn } from "../../accounts/sign-in.ts";
import type { SshKeys } from "../../accounts/ssh-keys.ts";
import type { Checklists } from "../../billing/checklist.ts";

export interface AccountFeatures {
  readonly accounts: Pick<CreateAccount, "createAccount">;
  readonly operator: Operator;
  readonly members: Members;
  readonly accountMails: AccountMails;
  readonly profiles: Profiles;
  readonly projects: Projects;
  readonly sshKeys: SshKeys;
  readonly tokens: ApiTokens;
  readonly scopedJwts: ScopedJwts;
  readonly sessions: Sessions;
  readonly signIn: SignIn;
  readonly factors: Factors;
  readonly cliLogins: CliLogins;
  readonly applications: Applications;
  readonly deleteAccount: DeleteAccount;
  readonly checklists: Checklists;
  /** Scheme, host and port under which clients reach this control plane; undefined: as each request says. */
  readonly publicUrl: string | undefined;
}
