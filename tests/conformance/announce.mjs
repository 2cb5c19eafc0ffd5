// Preloaded into a server that cannot say which free port it was given: says it for it.
import net from "node:net";

const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (...how) {
  this.once("listening", () => console.error(`bound to port ${this.address().port}`));
  return listen.apply(this, how);
};
