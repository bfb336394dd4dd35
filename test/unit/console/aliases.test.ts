import { expect, it } from "vitest";
import {
  aliasBody,
  aliasCommand,
  aliasPath,
  aliasPreview,
  isAliasName,
  newAlias,
  targetsText,
} from "../../../console/domain/aliases.ts";

const form = {
  ...newAlias,
  name: "team/prod",
  targets: [
    { model: " org/v1 ", weight: 95 },
    { model: "org/v2", weight: 5 },
    { model: "", weight: 1 },
    { model: "org/old", weight: 0 },
  ],
  fallbacks: ["org/small"],
};

it("sends the rows that name a model", () => {
  expect(aliasBody(form)).toEqual({
    targets: [
      { model: "org/v1", weight: 95 },
      { model: "org/v2", weight: 5 },
      { model: "org/old", weight: 0 },
    ],
    fallbacks: ["org/small"],
    sticky: false,
  });
  expect(aliasPath(form)).toBe("/v1/model-aliases/team/prod");
  expect(aliasPath({ ...form, scope: "installation" })).toBe("/v1/admin/model-aliases/team/prod");
});

it("says where requests go", () => {
  expect(aliasPreview(form)).toEqual([
    "95 % go to org/v1.",
    "5 % go to org/v2.",
    "org/old serves only if the others cannot.",
    "If none of these can serve: org/small.",
  ]);
  expect(targetsText([{ model: "org/v1", weight: 5 }])).toBe("100 % org/v1");
  expect(aliasPreview(newAlias)).toEqual([]);
});

it("asks for a weight where no model has one, as the server does", () => {
  const targets = form.targets.map(({ model }) => ({ model, weight: 0 }));
  expect(aliasPreview({ ...form, targets })).toEqual(["At least one model needs a weight above 0."]);
});

it("names the same command", () => {
  expect(aliasCommand({ ...form, sticky: true, scope: "installation" })).toBe(
    "stoker model alias create team/prod --target org/v1=95 --target org/v2=5 --target org/old=0 --fallback org/small --sticky --installation",
  );
});

it.each(["a", "org/model:latest", "a_b-c.d"])("accepts the name %s", (name) => expect(isAliasName(name)).toBe(true));
it.each(["", "a b", "ü", "a?"])("refuses the name %j", (name) => expect(isAliasName(name)).toBe(false));
