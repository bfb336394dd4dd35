import { Type } from "typebox";
import { nullable } from "./sampling.ts";

const words = (maxLength: number) => Type.String({ minLength: 1, maxLength });

/** What Stoker fills in itself is accepted, as clients send the whole record, and not read. */
export const ApplicationRequest = Type.Object({
  company: words(256),
  ceo: words(256),
  funding: words(256),
  founded_on: words(64),
  website: words(512),
  deal: Type.Optional(nullable.string({ maxLength: 512 })),
  id: Type.Optional(Type.Unknown({ description: "Not read" })),
  uid: Type.Optional(Type.Unknown({ description: "Not read" })),
  created_at: Type.Optional(Type.Unknown({ description: "Not read" })),
  status: Type.Optional(Type.Unknown({ description: "Not read" })),
});

export const ApplicationBody = Type.Object({
  id: Type.String(),
  uid: Type.String(),
  email: Type.String(),
  company: Type.String(),
  ceo: Type.String(),
  funding: Type.String(),
  founded_on: Type.String(),
  website: Type.String(),
  deal: Type.String(),
  created_at: Type.Integer({ description: "Unix seconds" }),
  status: Type.String({ enum: ["pending", "approved", "rejected"] }),
  decided_at: nullable.integer({ description: "Unix seconds" }),
  decision_note: nullable.string({ description: "The operator's" }),
});
