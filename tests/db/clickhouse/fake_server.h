// A server of the loopback that answers as a test wants, whatever it is asked.
#pragma once
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>

namespace greta {

/// One connection after the other, a request each.
class FakeServer {
 public:
  /// `answer` is told the request's head and its body's first bytes, and writes to the socket.
  using Answer = std::function<void(const std::string& request, int socket)>;

  explicit FakeServer(Answer answer) : answer_(std::move(answer)) {
    socket_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    if (bind(socket_, reinterpret_cast<sockaddr*>(&at), size) != 0 || listen(socket_, 8) != 0 ||
        getsockname(socket_, reinterpret_cast<sockaddr*>(&at), &size) != 0)
      throw std::runtime_error("no socket for a test");
    port_ = ntohs(at.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~FakeServer() {
    shutdown(socket_, SHUT_RDWR);
    thread_.join();
    close(socket_);
  }
  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;

  int port() const { return port_; }
  int requests() const { return requests_; }

  /// False when the other side has gone.
  static bool say(int socket, const std::string& bytes) {
    for (size_t at = 0; at < bytes.size();) {
      const ssize_t n = send(socket, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
      if (n <= 0) return false;
      at += static_cast<size_t>(n);
    }
    return true;
  }
  static std::string whole(const std::string& body, const std::string& status = "200 OK") {
    return "HTTP/1.1 " + status + "\r\nContent-Length: " + std::to_string(body.size()) +
           "\r\nConnection: close\r\n\r\n" + body;
  }

 private:
  void serve() {
    for (int one; (one = accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC)) >= 0; close(one)) {
      ++requests_;
      std::string request;
      char buffer[65536];
      // all of what tests send fits; the statement comes after the head
      while (request.find("FORMAT RowBinary") == std::string::npos) {
        const ssize_t n = recv(one, buffer, sizeof buffer, 0);
        if (n <= 0) break;
        request.append(buffer, static_cast<size_t>(n));
      }
      answer_(request, one);
      shutdown(one, SHUT_WR);
      while (recv(one, buffer, sizeof buffer, 0) > 0) {
      }
    }
  }

  Answer answer_;
  int socket_ = -1, port_ = 0;
  std::atomic<int> requests_ = 0;
  std::thread thread_;
};

}  // namespace greta
