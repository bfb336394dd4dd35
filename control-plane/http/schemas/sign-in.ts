import { Type } from "typebox";
import { NewAccount } from "./account.ts";
import { nullable } from "./sampling.ts";

const newPassword = Type.String({ minLength: 8, maxLength: 1024 });
/** What is only compared has no least length. */
const password = Type.String({ maxLength: 1024 });

export const SignInRequest = Type.Object({
  email: Type.String({ maxLength: 320, pattern: "^[^\\u0000]*$" }),
  password,
});

export const NewCredentials = Type.Object({
  email: NewAccount.properties.email,
  password: newPassword,
  display_name: NewAccount.properties.display_name,
});

export const PasswordChange = Type.Object({
  password: newPassword,
  current_password: Type.Optional(nullable.string({ maxLength: 1024, description: "Needed with a session" })),
});

export const AuthSession = Type.Object({
  uid: Type.String(),
  csrf_token: Type.String({ description: "For the header x-csrf-token of writes with the cookie" }),
  expires_at: Type.Integer({ description: "Unix seconds, if the session is not used any more" }),
});

export const NewCustomer = Type.Object({
  uid: Type.String(),
  api_key: Type.String({ description: "Shown once" }),
  csrf_token: Type.String(),
});
