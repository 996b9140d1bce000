// Which addresses a name may lead to: the rule alone, row by row.

#include "plugins/isolation/address_rule.h"

#include <gtest/gtest.h>

#include "plugins/isolation/network_broker.h"
#include "store/model/error.h"
#include "tests/support/case.h"

namespace gradus {
namespace {

struct Row {
    const char* address;
    const char* what;  ///< "" where it may be reached
};

void PrintTo(const Row& row, std::ostream* out) { *out << row.address; }

class AddressRule : public testing::TestWithParam<Row> {};

TEST_P(AddressRule, JudgesTheAddressAlone) {
    GRADUS_CASES("N8", "NW3");
    const auto address = parseAddress(GetParam().address);
    ASSERT_TRUE(address) << GetParam().address;
    EXPECT_EQ(reservedFor(*address), GetParam().what) << GetParam().address;
}

INSTANTIATE_TEST_SUITE_P(
    Rows, AddressRule,
    testing::Values(Row{"0.0.0.0", "unspecified"}, Row{"0.1.2.3", "this-network"}, Row{"1.1.1.1", ""},
                    Row{"9.255.255.255", ""}, Row{"10.0.0.0", "private"}, Row{"10.255.255.255", "private"},
                    Row{"11.0.0.0", ""}, Row{"100.63.255.255", ""}, Row{"100.64.0.0", "shared"},
                    Row{"100.127.255.255", "shared"}, Row{"100.128.0.0", ""}, Row{"100.100.100.200", "metadata"},
                    Row{"126.255.255.255", ""}, Row{"127.0.0.1", "loopback"}, Row{"127.255.255.255", "loopback"},
                    Row{"128.0.0.0", ""}, Row{"169.253.255.255", ""}, Row{"169.254.169.254", "metadata"},
                    Row{"169.254.0.1", "link-local"}, Row{"169.255.0.0", ""}, Row{"172.15.255.255", ""},
                    Row{"172.16.0.0", "private"}, Row{"172.31.255.255", "private"}, Row{"172.32.0.0", ""},
                    Row{"192.0.0.8", "reserved"}, Row{"192.0.2.1", "documentation"}, Row{"192.88.99.1", "reserved"},
                    Row{"192.167.255.255", ""}, Row{"192.168.0.0", "private"}, Row{"192.168.255.255", "private"},
                    Row{"192.169.0.0", ""}, Row{"198.17.255.255", ""}, Row{"198.18.0.1", "benchmarking"},
                    Row{"198.19.255.255", "benchmarking"}, Row{"198.20.0.0", ""}, Row{"198.51.100.9", "documentation"},
                    Row{"203.0.113.9", "documentation"}, Row{"223.255.255.255", ""}, Row{"224.0.0.1", "multicast"},
                    Row{"239.255.255.255", "multicast"}, Row{"240.0.0.1", "reserved"},
                    Row{"255.255.255.255", "broadcast"},
                    // IPv6.
                    Row{"::", "unspecified"}, Row{"::1", "loopback"}, Row{"2606:4700::1111", ""},
                    Row{"2a00:1450::1", ""}, Row{"fc00::1", "private"}, Row{"fdff:ffff::1", "private"},
                    Row{"fd00:ec2::254", "metadata"}, Row{"fe80::1", "link-local"}, Row{"febf::1", "link-local"},
                    Row{"fec0::1", "site-local"}, Row{"ff02::1", "multicast"}, Row{"2001:db8::1", "documentation"},
                    Row{"3fff::1", "documentation"}, Row{"2001:2::1", "benchmarking"}, Row{"2001:10::1", "reserved"},
                    Row{"100::1", "reserved"}, Row{"4000::1", "reserved"}, Row{"5f00::1", "reserved"},
                    // One address inside of another.
                    Row{"::ffff:127.0.0.1", "loopback"}, Row{"::ffff:10.1.2.3", "private"}, Row{"::ffff:8.8.8.8", ""},
                    Row{"::ffff:169.254.169.254", "metadata"}, Row{"::127.0.0.1", "loopback"},
                    Row{"::8.8.8.8", "tunnel"}, Row{"::ffff:0:127.0.0.1", "loopback"},
                    Row{"64:ff9b::10.0.0.1", "private"}, Row{"64:ff9b::8.8.8.8", ""},
                    Row{"64:ff9b::169.254.169.254", "metadata"}, Row{"64:ff9b:1::8.8.8.8", "translation"},
                    Row{"2002:7f00:1::", "loopback"}, Row{"2002:a00:1::", "private"}, Row{"2002:808:808::", "tunnel"},
                    Row{"2001:0:4136:e378:8000:63bf:80ff:fffe", "loopback"},
                    Row{"2001:0:4136:e378:8000:63bf:f7f7:f7f7", "tunnel"}));

TEST(NetworkAddresses, WhatIsNoAddressIsNone) {
    for (const char* text : {"", "127.1", "0x7f000001", "2130706433", "1.2.3.4.5", "::g", "1.2.3.4 ", "localhost"})
        EXPECT_FALSE(parseAddress(text)) << text;
    EXPECT_EQ(formatAddress(*parseAddress("2606:4700:0::1111")), "2606:4700::1111");
}

TEST(Destinations, SayANameAPortAndAPin) {
    const Destination all = parseDestination("Svc.Test:8080=127.0.0.1");
    EXPECT_EQ(all, (Destination{"svc.test", 8080, "127.0.0.1"}));
    EXPECT_EQ(formatDestination(all), "svc.test:8080=127.0.0.1");
    EXPECT_EQ(parseDestination("pypi.org"), (Destination{"pypi.org", std::nullopt, std::nullopt}));
    EXPECT_EQ(parseDestination("a.test=::1"), (Destination{"a.test", std::nullopt, "::1"}));
    for (const char* text :
         {"",         ":80",     "a:0",      "a:65536",    "a:x",          "a:",     "127.0.0.1:80",
          "[::1]:80", "::1",     "127.1:80", "0x7f000001", "2130706433",   "a b",    "-a.test",
          "a..test",  "a.test.", "a.test=",  "a.test=b",   "localhost:80", "*.test", "a.test:80=127.1",
          "a/b"})
        EXPECT_NE(destinationProblem(text), "") << text;
}

TEST(Destinations, EachNameHasAnAddressInsideAndEachPortARoute) {
    const auto routes = routesFor({parseDestination("a.test"), parseDestination("b.test:22"),
                                   parseDestination("a.test:443"), parseDestination("c.test:1=127.0.0.1")});
    ASSERT_EQ(routes.size(), 4U);
    EXPECT_EQ(routes[0].inside, (JailRoute{0xc6120001, 80}));
    EXPECT_EQ(routes[1].inside, (JailRoute{0xc6120001, 443}));
    EXPECT_EQ(routes[2].inside, (JailRoute{0xc6120002, 22}));
    EXPECT_EQ(routes[3].pinned, "127.0.0.1");
    EXPECT_NE(hostsFor(routes).find("198.18.0.2 b.test\n"), std::string::npos);
    EXPECT_THROW(routesFor({parseDestination("a.test=0.0.0.0")}), Error);
    EXPECT_THROW(routesFor({parseDestination("a.test=224.0.0.1")}), Error);
    std::vector<Destination> many;
    for (int i = 0; i < 65; ++i) many.push_back({"n" + std::to_string(i) + ".test", std::nullopt, std::nullopt});
    EXPECT_THROW(routesFor(many), Error);
}

TEST(Destinations, OfOneNameAndPortLeadToOnePlace) {
    const auto routesOf = [](const char* one, const char* other) {
        return routesFor({parseDestination(one), parseDestination(other)}).size();
    };
    EXPECT_EQ(routesOf("a.test:80=127.0.0.1", "a.test:80=127.0.0.1"), 1U);
    EXPECT_EQ(routesOf("a.test:80=127.0.0.1", "a.test:81=127.0.0.2"), 2U);
    EXPECT_THROW(routesOf("a.test:80=127.0.0.1", "a.test:80=127.0.0.2"), Error);
    EXPECT_THROW(routesOf("a.test", "a.test:443=127.0.0.2"), Error);
}

// Another name for a machine is that machine.
TEST(AddressRule, AnAddressInsideOfAnotherIsTheSameMachine) {
    const auto same = [](const char* one, const char* other) {
        return isSameMachine(*parseAddress(one), *parseAddress(other));
    };
    EXPECT_TRUE(same("93.184.215.14", "93.184.215.14"));
    EXPECT_TRUE(same("::ffff:93.184.215.14", "93.184.215.14"));
    EXPECT_TRUE(same("93.184.215.14", "::ffff:5db8:d70e"));
    EXPECT_TRUE(same("64:ff9b::93.184.215.14", "::ffff:93.184.215.14"));
    EXPECT_TRUE(same("2606:2800::1", "2606:2800::1"));
    EXPECT_FALSE(same("93.184.215.14", "93.184.215.15"));
    EXPECT_FALSE(same("::ffff:93.184.215.15", "93.184.215.14"));
    EXPECT_FALSE(same("2606:2800::1", "2606:2800::2"));
}

}  // namespace
}  // namespace gradus
