// Writes client.d.ts from the JSDoc of client.js: `node Sources/WebClient/make-types.mjs`. With --check it only compares, and exits with 1
// if the file is stale.
//
// It reads the forms of JSDoc that client.js uses: @typedef with @property, @typedef of a type, and the exported classes and constants.
import { readFileSync, writeFileSync } from "node:fs";

const source = readFileSync(new URL("client.js", import.meta.url), "utf8");
const target = new URL("client.d.ts", import.meta.url);

/** The text after a `{`, up to the `}` that closes it. */
function braced(text, start) {
  let depth = 0;
  for (let index = start; index < text.length; index += 1) {
    if (text[index] === "{") depth += 1;
    if (text[index] === "}" && (depth -= 1) === 0) return { inside: text.slice(start + 1, index), end: index + 1 };
  }
  throw new Error(`an open brace: ${text.slice(start, start + 60)}`);
}

/** The description and the tags of a comment. */
function read(comment) {
  const lines = comment.replace(/^\/\*\*|\*\/$/g, "").split("\n").map((line) => line.replace(/^\s*\* ?/, "").trimEnd());
  const [description, ...tags] = lines.join("\n").split(/^\s*@/m);
  return {
    description: description.trim().replace(/\s+/g, " "),
    tags: tags.map((tag) => {
      const text = tag.trim().replace(/\s*\n\s*/g, " ");
      const name = text.split(/\s/, 1)[0];
      const rest = text.slice(name.length).trim();
      if (rest[0] !== "{") return { name, type: "", rest };
      const { inside, end } = braced(rest, 0);
      return { name, type: inside.trim(), rest: rest.slice(end).trim() };
    }),
  };
}

const documented = (text, indent) => (text ? `${indent}/** ${text} */\n` : "");
const comments = [...source.matchAll(/^([ ]*)(\/\*\*(?:(?!\*\/)[\s\S])*\*\/)$/gm)];
let output = "// Made by make-types.mjs from client.js.\n";

for (const [, indent, comment] of comments) {
  const { description, tags } = read(comment);
  if (indent !== "" || tags[0]?.name !== "typedef") continue;
  if (tags[0].type !== "Object") {
    output += `\n${documented(description, "")}export type ${tags[0].rest} = ${tags[0].type};\n`;
    continue;
  }
  output += `\n${documented(description, "")}export interface ${tags[0].rest} {\n`;
  for (const { type, rest } of tags.slice(1)) {
    const [, name, text] = /^(\[\w+\]|\w+)\s*(.*)$/.exec(rest);
    output += `${documented(text, "  ")}  ${name.startsWith("[") ? `${name.slice(1, -1)}?` : name}: ${type};\n`;
  }
  output += "}\n";
}

function parameters(tags) {
  return tags.filter(({ name }) => name === "param").map(({ type, rest }) => {
    const [, optional, plain] = /^(?:\[(\w+)\]|(\w+))/.exec(rest);
    return optional ? `${optional}?: ${type}` : `${plain}: ${type}`;
  }).join(", ");
}

for (const [, name, base, start] of [...source.matchAll(/^export class (\w+) extends (\w+) \{$/gm)].map((match) => [...match, match.index])) {
  const before = comments.find((comment) => comment.index + comment[0].length + 1 === start);
  output += `\n${documented(before ? read(before[2]).description : "", "")}export class ${name} extends ${base} {\n`;
  const body = source.slice(start, source.indexOf("\n}\n", start));
  for (const [, indent, comment, line] of body.matchAll(/^([ ]*)(\/\*\*(?:(?!\*\/)[\s\S])*\*\/)\n([^\n]*)/gm)) {
    const { description, tags } = read(comment);
    const declaration = line.trim();
    const type = tags.find(({ name }) => name === "type")?.type;
    const member = /^(?:async |get )?(\w+)\(/.exec(declaration)?.[1];
    const field = /^this\.(\w+) =/.exec(declaration)?.[1];
    if (indent === "    " && field && type) output += `${documented(description, "  ")}  ${field}: ${type};\n`;
    else if (indent !== "  " || !member) continue;
    else if (declaration.startsWith("get ")) output += `${documented(description, "  ")}  readonly ${member}: ${type};\n`;
    else {
      const template = tags.find(({ name }) => name === "template");
      const generic = template ? `<${template.rest.split(/\s/, 1)[0]} extends ${template.type}>` : "";
      const result = member === "constructor" ? "" : `: ${tags.find(({ name }) => name === "returns").type}`;
      output += `${documented(description, "  ")}  ${member}${generic}(${parameters(tags)})${result};\n`;
    }
  }
  output += "}\n";
}

const codes = /export const PresenceCode = Object\.freeze\(\{([\s\S]*?)\n\}\);/.exec(source)[1];
output += `\n/** The codes of this client and of the nodes. */\nexport const PresenceCode: {\n${codes
  .replace(/^\n/, "").replace(/^ {2}(\w+): (-?\d+),/gm, "  readonly $1: $2;")}\n};\n`;

if (!process.argv.includes("--check")) writeFileSync(target, output);
else if (readFileSync(target, "utf8") !== output) {
  console.error("client.d.ts is stale: run node Sources/WebClient/make-types.mjs");
  process.exitCode = 1;
}
